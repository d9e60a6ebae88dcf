import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as plainRequest,
  type RequestOptions,
} from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { readJson } from '../protocol/documents.ts'
import { isRefusalCode, type RefusalCode, readErrorDocument } from '../protocol/refusal.ts'
import {
  anyInstance,
  digestOf,
  newNonce,
  type SigningKey,
  sameText,
  signRequest,
  signResponse,
} from '../protocol/signature.ts'

/** TLS of a client, each as PEM: authorities other than those of the system, and a certificate for mutual TLS. */
export interface ClientTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** The connection failed. `isSent`: the request may have reached the host. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
  readonly isSent: boolean

  constructor(message: string, isSent: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.isSent = isSent
  }
}

/** The host refused the request, in a signed answer; it did nothing. */
export class HostRefusal extends Error {
  override readonly name = 'HostRefusal'
  readonly code: RefusalCode | 'UNAUTHENTICATED'

  constructor(code: RefusalCode | 'UNAUTHENTICATED', message: string) {
    super(message)
    this.code = code
  }
}

export interface HostRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  readonly path: string
  /** The started server that it is meant for; any when absent, for requests that only read. */
  readonly instance?: string
  readonly body?: Uint8Array
  /** How long the answer may take. */
  readonly timeoutMs: number
}

/** A response whose frames follow. */
export interface FrameStream {
  readonly response: IncomingMessage
  /** The signature of the request, to which the frames are bound. */
  readonly request: string
  readonly key: SigningKey
}

/** Sends signed requests to one host, and accepts only answers that the host signed. */
export interface HostClient {
  /**
   * - Errors: ConnectionLost; HostRefusal; a ToolError that a runtime of the host threw. Rejects with the signal's reason.
   */
  ask(request: HostRequest, signal: AbortSignal): Promise<unknown>
  /** The same for a response of frames; its reader destroys it. */
  stream(request: HostRequest, signal: AbortSignal): Promise<FrameStream>
  close(): void
}

export interface HostClientOptions {
  readonly url: URL
  readonly key: () => Promise<SigningKey>
  readonly tls?: ClientTls
}

const mostAnswerBytes = 4_194_304
const connectMs = 5_000
const mostSockets = 512
const none = new Uint8Array()

export function createHostClient({ url, key, tls }: HostClientOptions): HostClient {
  const secure = url.protocol === 'https:'
  const settings = { keepAlive: true, maxSockets: mostSockets, keepAliveMsecs: 10_000, scheduling: 'lifo' } as const
  const agent = secure ? new TlsAgent({ ...settings, ...tls, minVersion: 'TLSv1.2' }) : new Agent(settings)
  const base: RequestOptions = {
    agent,
    hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
  }
  /** Sends one request; resolves with the head of the response. */
  const send = async (asked: HostRequest, signal: AbortSignal): Promise<FrameStream> => {
    signal.throwIfAborted()
    const { method, path, body = none, instance = anyInstance, timeoutMs } = asked
    const own = await key()
    const parts = { method, path, authority: url.host, digest: digestOf(body), instance }
    const { header, signature } = signRequest(own, { ...parts, created: Date.now(), nonce: newNonce() })
    const headers = { authorization: header, host: url.host, 'content-length': body.length }
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const call: ClientRequest = (secure ? tlsRequest : plainRequest)({ ...base, method, path, headers }, resolve)
    let isSent = false
    const give = (reason: string, cause?: unknown): void => {
      reject(new ConnectionLost(`${url.host} ${reason}`, isSent, cause))
      call.destroy()
    }
    // Until it is connected, nothing can have reached the host.
    const connecting = setTimeout(() => give(`did not accept a connection in ${connectMs} ms`), connectMs)
    const waiting = setTimeout(() => give(`did not answer in ${timeoutMs} ms`), timeoutMs)
    const connected = (): void => {
      isSent = true
      clearTimeout(connecting)
    }
    call.on('socket', (socket) => {
      if (call.reusedSocket || !socket.connecting) connected()
      else socket.once(secure ? 'secureConnect' : 'connect', connected)
    })
    call.on('error', (cause: NodeJS.ErrnoException) => give(`cannot be reached (${cause.code ?? cause.name})`, cause))
    const leave = onAbort(signal, () => {
      reject(signal.reason)
      call.destroy()
    })
    if (body.length === 0) call.end()
    else call.end(body)
    try {
      const response = await promise
      response.on('error', () => undefined)
      return { response, request: signature, key: own }
    } finally {
      clearTimeout(connecting)
      clearTimeout(waiting)
      leave()
    }
  }
  const documentOf = async (
    { response, request, key: own }: FrameStream,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<unknown> => {
    const { statusCode: status = 0, headers } = response
    const body = await readAll(response, timeoutMs, signal, url.host)
    const genuine = sameText(String(headers['gantry-signature']), signResponse(own, request, status, body))
    if (!genuine && (status === 401 || status === 400)) {
      // Not signed, so that it proves nothing; still the best there is to say.
      throw new HostRefusal('UNAUTHENTICATED', `${url.host} does not accept the key: ${refusalText(body)}`)
    }
    if (!genuine) throw new ConnectionLost(`${url.host} sent an answer that the key did not sign`, true)
    const document = parsed(body, url.host)
    if (status === 200) return document
    const refused = isObject(document) ? document.refused : undefined
    if (isObject(refused))
      throw new HostRefusal(
        isRefusalCode(refused.code) ? refused.code : 'INVALID',
        `${url.host}: ${String(refused.message).slice(0, 500)}`,
      )
    throw (
      readErrorDocument(document) ??
      new ToolError(
        'BACKEND_FAILED',
        `${url.host} sent an invalid response; check that both run the same version of Gantry.`,
      )
    )
  }
  return {
    async ask(asked, signal) {
      return documentOf(await send(asked, signal), asked.timeoutMs, signal)
    },
    async stream(asked, signal) {
      const sent = await send(asked, signal)
      const { response, request, key: own } = sent
      const genuine = sameText(String(response.headers['gantry-signature']), signResponse(own, request, 200, undefined))
      if (response.statusCode === 200 && genuine) return sent
      await documentOf(sent, asked.timeoutMs, signal)
      throw new ConnectionLost(`${url.host} sent an answer of another form`, true)
    },
    close: () => agent.destroy(),
  }
}

async function readAll(
  response: IncomingMessage,
  timeoutMs: number,
  signal: AbortSignal,
  host: string,
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  const late = setTimeout(() => response.destroy(), timeoutMs)
  const leave = onAbort(signal, () => void response.destroy())
  try {
    for await (const piece of response) {
      bytes += piece.length
      if (bytes > mostAnswerBytes) throw new Error('The answer is too long.')
      pieces.push(piece)
    }
    return Buffer.concat(pieces)
  } catch (cause) {
    response.destroy()
    signal.throwIfAborted()
    throw new ConnectionLost(`${host} did not send its answer whole`, true, cause)
  } finally {
    clearTimeout(late)
    leave()
  }
}

function parsed(body: Buffer, host: string): unknown {
  try {
    return readJson(body)
  } catch (cause) {
    throw new ToolError('BACKEND_FAILED', `${host} sent an answer that is not JSON.`, { cause })
  }
}

/** Of an answer that may come from any program: short and printable. */
function refusalText(body: Buffer): string {
  try {
    const document = readJson(body)
    const refused = isObject(document) ? document.refused : undefined
    return String(isObject(refused) ? refused.message : undefined)
      .slice(0, 200)
      .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
  } catch {
    return 'no reason was given.'
  }
}
