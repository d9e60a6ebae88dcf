import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { contractVersion, type Issue, ToolError } from '@gantry/contract'
import { callback, having, listOf, ruled, text, whole } from '@gantry/core/internal/options/option'
import { optionsCheck, refuse } from '@gantry/core/internal/options/options'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { isLoopback, keyIdMember, keyRule } from '../protocol/address.ts'
import {
  type Answers,
  type HostState,
  isAnswers,
  isWireSpec,
  jsonBytes,
  type OfferedRuntime,
  protocolVersion,
  readJson,
  type WireSpec,
} from '../protocol/documents.ts'
import { decodeJob, mostJobBytes } from '../protocol/job.ts'
import { errorDocument, RequestRefusal } from '../protocol/refusal.ts'
import { digestOf, type SigningKey, sameText, signResponse } from '../protocol/signature.ts'
import { AdmissionRefusal, type Admitted, createAdmission } from './admission.ts'
import { createHeldSandboxes } from './held-sandboxes.ts'
import { findOffers } from './offers.ts'
import { createRecorder, type ServerRecord } from './record.ts'

export interface RuntimeServerOptions {
  /** Its creator closes them, after the server. */
  readonly runtimes: Pick<Runtimes, 'take' | 'list' | 'explain'>
  /** The keys of the clients that may use this host. */
  readonly keys: readonly SigningKey[]
  /** The address to listen on; 127.0.0.1 when absent. Any other than a loopback address needs `tls`. */
  readonly listen?: string
  /** 7421 when absent; 0 for any. */
  readonly port?: number
  readonly tls?: ServerTls
  /** Sandboxes that may be open at a time; 64 when absent. */
  readonly capacity?: number
  /** How long a run is kept for a client whose connection was lost, in milliseconds; 30,000 when absent. */
  readonly keepMs?: number
  /** Called for each refused request and each sandbox; must not throw. */
  readonly onRecord?: (record: ServerRecord) => void
}

export interface RuntimeServer {
  readonly url: string
  /** Refuses new sandboxes, and resolves when every run has ended and its client has the outcome. */
  drain(): Promise<void>
  /** Ends all sandboxes and connections. Idempotent. */
  close(): Promise<void>
}

export const usualPort = 7421
const usualCapacity = 64
const usualKeepMs = 30_000
/** Most bytes of requests that are being read, and of frames that are kept. */
const mostHeldBytes = 536_870_912
const mostSmallBody = 1_048_576
const mostAnswersBody = 67_108_864
const mostConnections = 1_024
/** Offers are found again after this time, because an operator may have repaired a runtime. */
const offersMs = 30_000

/**
 * Offers the runtimes of this host to other Gantrys. Every request is signed; see docs/runtimes/remote.md.
 * Throws CONFIG_INVALID with the path of each wrong option.
 */
export async function createRuntimeServer(options: RuntimeServerOptions): Promise<RuntimeServer> {
  checkServerOptions(options)
  const { runtimes, keys, listen = '127.0.0.1', port = usualPort, tls, onRecord = () => undefined } = options
  const { capacity = usualCapacity, keepMs = usualKeepMs } = options
  const instance = randomBytes(12).toString('base64url')
  const record = createRecorder(onRecord)
  const admission = createAdmission({ keys, instance })
  const held = createHeldSandboxes({ runtimes, capacity, keepMs, mostBytes: mostHeldBytes, onEvent: record })
  const closing = new AbortController()
  const bodies = createBodies(mostHeldBytes)
  let isDraining = false
  let offers: { readonly at: number; readonly found: Promise<readonly OfferedRuntime[]> } | undefined

  const state = (): HostState => ({
    protocol: protocolVersion,
    instance,
    version: contractVersion,
    open: held.open,
    capacity,
    draining: isDraining,
    keepMs,
  })
  const offered = (): Promise<readonly OfferedRuntime[]> => {
    if (offers === undefined || performance.now() - offers.at > offersMs) {
      offers = { at: performance.now(), found: findOffers(runtimes, closing.signal) }
      offers.found.catch(() => {
        offers = undefined
      })
    }
    return offers.found
  }
  const heartbeat = async (key: string, body: Buffer): Promise<object> => {
    const { sandboxes, done } = readJson(body) as { readonly sandboxes?: unknown; readonly done?: unknown }
    for (const id of idsOf(done)) void held.remove(key, id, 'its client has the outcome')
    return { ...state(), ended: held.renew(key, idsOf(sandboxes)) }
  }
  const stream = async (
    run: Awaited<ReturnType<typeof held.start>>,
    route: RunRoute,
    { key, claim }: Admitted,
    response: ServerResponse,
  ): Promise<void> => {
    const { signature } = claim
    await held.whileAttached(key.id, route.id, () => {
      response.writeHead(200, {
        'content-type': 'application/octet-stream',
        'gantry-signature': signResponse(key, signature, 200, undefined),
      })
      // The client checks the head while the program runs.
      response.flushHeaders()
      return run.attach(response, key, signature, route.after)
    })
  }
  const handle = async (
    request: IncomingMessage,
    response: ServerResponse,
    admitted: Admitted,
  ): Promise<object | undefined> => {
    const { method = '', url = '' } = request
    const { key, claim } = admitted
    const read = (most: number): Promise<Buffer> => bodies.read(request, most, claim.digest)
    if (method === 'GET' && url === '/v1/host') return read(0).then(state)
    if (method === 'GET' && url === '/v1/runtimes') return { ...state(), runtimes: await read(0).then(offered) }
    if (method === 'POST' && url === '/v1/heartbeat') return heartbeat(key.id, await read(mostSmallBody))
    const sandbox = /^\/v1\/sandboxes\/([\w-]{16})$/.exec(url)?.[1]
    if (sandbox !== undefined && method === 'PUT') {
      const spec = specOf(await read(mostSmallBody))
      return held.opened(key.id, sandbox, claim.digest, spec)
    }
    if (sandbox !== undefined && method === 'DELETE') {
      await read(0)
      await held.remove(key.id, sandbox, 'its client ended it')
      return {}
    }
    const route = runRoute(url)
    if (route?.isAnswers === true && method === 'POST') {
      const run = held.run(key.id, route.id, route.run)
      const answers = answersOf(await read(mostAnswersBody))
      run.acknowledge(route.after)
      if (!run.answer(answers)) throw new RequestRefusal('CONFLICT', 'Gateway responses before these are missing.')
      return {}
    }
    if (route?.isAnswers === false && (method === 'PUT' || method === 'GET')) {
      const body = await read(method === 'PUT' ? mostJobBytes : 0)
      const run =
        method === 'GET'
          ? held.run(key.id, route.id, route.run)
          : await held.start(key.id, route.id, route.run, claim.digest, () => decodeJob(body))
      await stream(run, route, admitted, response)
      return undefined
    }
    throw new RequestRefusal('NOT_FOUND', 'There is no such path.')
  }
  const answer = (response: ServerResponse, status: number, document: object, admitted: Admitted | undefined): void => {
    if (response.headersSent || response.destroyed) return void response.destroy()
    const body = jsonBytes(document)
    response.writeHead(status, {
      'content-type': 'application/json',
      'content-length': body.length,
      ...(admitted === undefined
        ? {}
        : { 'gantry-signature': signResponse(admitted.key, admitted.claim.signature, status, body) }),
    })
    response.end(body)
  }
  const refuse = (
    request: IncomingMessage,
    response: ServerResponse,
    error: unknown,
    admitted: Admitted | undefined,
  ): void => {
    const { method = '', url: path = '', socket } = request
    discardBody(request, response)
    if (error instanceof RequestRefusal) {
      const { code, status, message: reason } = error
      const key = /^Gantry-HMAC-SHA256 keyid="([\w.-]{1,64})"/.exec(request.headers.authorization ?? '')?.[1]
      const named = key === undefined ? {} : { key }
      record({ event: 'refused', code, reason, ...named, address: socket.remoteAddress ?? '', method, path })
      answer(response, status, { refused: { code, message: reason } }, admitted)
    } else answer(response, 422, errorDocument(error), admitted)
  }
  const listener: RequestListener = (request, response) => {
    response.on('error', () => undefined)
    request.on('error', () => undefined)
    let admitted: Admitted | undefined
    const work = async (): Promise<void> => {
      admitted = admission.admit(request)
      const document = await handle(request, response, admitted)
      if (document !== undefined) answer(response, 200, document, admitted)
    }
    work().catch((error: unknown) => {
      refuse(request, response, error, error instanceof AdmissionRefusal ? error.admitted : admitted)
    })
  }
  const server = listenerOf(tls, listener)
  server.maxConnections = mostConnections
  server.headersTimeout = 10_000
  server.requestTimeout = 120_000
  server.keepAliveTimeout = 60_000
  server.listen(port, listen)
  await once(server, 'listening').catch((cause: unknown) => {
    const message = `The runtime server cannot listen on ${listen}:${port}; choose another port or address.`
    throw new ToolError('CONFIG_INVALID', message, { cause })
  })
  const { port: bound } = server.address() as AddressInfo
  const host = listen.includes(':') ? `[${listen}]` : listen
  let closed: Promise<void> | undefined
  const close = async (): Promise<void> => {
    isDraining = true
    closing.abort(new ToolError('CANCELLED', 'The runtime server is closed.'))
    await held.close()
    server.close()
    server.closeAllConnections()
  }
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${host}:${bound}`,
    async drain() {
      isDraining = true
      await held.drain()
    },
    close() {
      closed ??= close()
      return closed
    },
  }
}

function listenerOf(tls: ServerTls | undefined, listener: RequestListener): Server {
  if (tls === undefined) return createServer(listener)
  const { cert, key, ca } = tls
  // With authorities of its own the server refuses clients without a certificate of theirs.
  const clients = ca === undefined ? {} : { ca, requestCert: true, rejectUnauthorized: true }
  return createTlsServer({ cert, key, minVersion: 'TLSv1.2', ...clients }, listener)
}

/** A short body of a refused request is dropped, so that its connection stays; one that is longer ends with the connection. */
function discardBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return
  if (Number(request.headers['content-length'] ?? Number.NaN) <= mostSmallBody) return void request.resume()
  if (!response.headersSent) response.setHeader('connection', 'close')
  response.once('finish', () => request.socket.destroySoon())
}

interface RunRoute {
  readonly id: string
  readonly run: number
  readonly after: number
  readonly isAnswers: boolean
}

function runRoute(url: string): RunRoute | undefined {
  const found = /^\/v1\/sandboxes\/([\w-]{16})\/runs\/([1-9]\d{0,8})(\/answers)?(?:\?after=(\d{1,9}))?$/.exec(url)
  if (found === null) return undefined
  const [, id = '', run, answers, after = '0'] = found
  return { id, run: Number(run), after: Number(after), isAnswers: answers !== undefined }
}

function idsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((id) => typeof id === 'string').slice(0, 10_000) : []
}

function specOf(body: Buffer): WireSpec {
  const value = documentOf(body)
  if (!isWireSpec(value)) throw new RequestRefusal('INVALID', 'The spec of the sandbox has another form.')
  return value
}

function answersOf(body: Buffer): Answers {
  const value = documentOf(body)
  if (!isAnswers(value)) throw new RequestRefusal('INVALID', 'The gateway responses have another form.')
  return value
}

function documentOf(body: Buffer): unknown {
  try {
    return readJson(body)
  } catch {
    throw new RequestRefusal('INVALID', 'The body is not JSON.')
  }
}

const none = Buffer.alloc(0)

/** Its length was checked before, and Node's parser reads no more. */
function readWhole(request: IncomingMessage): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const pieces: Buffer[] = []
  const cut = (): void => reject(new RequestRefusal('INVALID', 'The body was cut off.'))
  request.on('data', (piece: Buffer) => void pieces.push(piece))
  request.once('end', () => resolve(Buffer.concat(pieces)))
  request.once('close', cut)
  return promise
}

/** Reads bodies of admitted requests, within a limit for each and one for all. */
function createBodies(mostTogether: number) {
  let together = 0
  return {
    async read(request: IncomingMessage, most: number, digest: string): Promise<Buffer> {
      const { 'content-length': stated } = request.headers
      const length = stated === undefined && request.headers['transfer-encoding'] === undefined ? 0 : Number(stated)
      if (!(length <= most))
        throw new RequestRefusal('BODY_TOO_LARGE', `The body must have a length of at most ${most} bytes.`)
      if (together + length > mostTogether) throw new RequestRefusal('FULL', 'The host reads as much as it can hold.')
      together += length
      try {
        const body = length === 0 ? none : await readWhole(request)
        if (!sameText(digestOf(body), digest))
          throw new RequestRefusal('BODY_CHANGED', 'The body is not the one that was signed.')
        return body
      } finally {
        together -= length
      }
    },
  }
}

/** TLS of a runtime server, each as PEM. With `ca` clients must have a certificate of these authorities. */
export interface ServerTls {
  readonly cert: string
  readonly key: string
  readonly ca?: string
}

const keyCheck = optionsCheck<SigningKey>({
  members: { id: keyIdMember, key: ruled(keyRule) },
  required: ['id', 'key'],
})
const optionsOf = optionsCheck<RuntimeServerOptions>({
  members: {
    runtimes: having('take', 'list', 'explain'),
    keys: listOf(keyCheck),
    listen: text(255),
    port: whole(0, 65_535),
    tls: {
      type: 'object',
      properties: { cert: text(), key: text(), ca: text() },
      required: ['cert', 'key'],
      additionalProperties: false,
    },
    capacity: whole(1, 10_000),
    keepMs: whole(1_000, 600_000),
    onRecord: callback,
  },
  required: ['runtimes', 'keys'],
})

export function checkServerOptions(options: RuntimeServerOptions): void {
  refuse('options of createRuntimeServer', optionsOf.issues(options, ''))
  refuse('options of createRuntimeServer', [...keyIssues(options.keys), ...listenIssues(options)])
}

function keyIssues(keys: readonly SigningKey[]): readonly Issue[] {
  if (keys.length === 0) return [{ path: '/keys', message: 'must have at least one key' }]
  const ids = keys.map(({ id }) => id)
  return ids.flatMap((id, index) =>
    ids.indexOf(id) === index ? [] : [{ path: `/keys/${index}/id`, message: `is the id of an earlier key: ${id}` }],
  )
}

function listenIssues({ listen = '127.0.0.1', tls }: RuntimeServerOptions): readonly Issue[] {
  if (tls !== undefined || isLoopback(listen)) return []
  return [{ path: '/tls', message: `is required to listen on ${listen}, which other machines reach` }]
}
