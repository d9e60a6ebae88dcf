import { readFileSync } from 'node:fs'
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request as requestPlain,
} from 'node:http'
import { request as requestSecure, Agent as SecureAgent } from 'node:https'
import type { Duplex } from 'node:stream'
import { createSecureContext } from 'node:tls'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { codeOf } from '@gantry/core/internal/files/private-file'
import { follow } from '@gantry/core/internal/resilience/abort'

/** Where a Docker engine listens. */
export type DockerAddress =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls?: DockerTls }

export interface DockerTls {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
}

/** The Engine API that we speak: that of Docker 20.10, or the oldest that a newer engine still has. */
const spoken = [1, 41] as const
/** A request that takes longer is not answered any more: the engine hangs. */
const answerMs = 15_000
/** More than any answer that we read whole. */
const mostBytes = 16 * 2 ** 20

/** An answer of the engine that is not a success. */
export class DockerError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/**
 * Requests to the Engine API, over its socket or over TCP with TLS.
 * - Errors: DockerError for an answer that says no; RUNTIME_UNAVAILABLE when the engine cannot be reached or does not answer.
 */
export interface DockerClient {
  readonly address: DockerAddress
  /** Sends JSON or a stream, and reads the JSON of the answer; undefined when it has no body. */
  call(method: string, path: string, options: CallOptions): Promise<unknown>
  /** Opens a stream of lines of JSON; it ends with the signal. */
  events(
    path: string,
    onEvent: (event: unknown) => void,
    signal: AbortSignal,
  ): Promise<{ readonly ended: Promise<void> }>
  /** Takes the connection over, as `attach` does. */
  hijack(path: string, signal: AbortSignal): Promise<Duplex>
  close(): void
}

export interface CallOptions {
  readonly signal: AbortSignal
  readonly json?: unknown
  readonly stream?: NodeJS.ReadableStream
  /** Called with each line of JSON of a long answer. */
  readonly onLine?: (line: unknown) => void
  /** `answerMs` when absent. */
  readonly waitMs?: number
}

/** Throws RUNTIME_UNAVAILABLE for an engine on another machine without TLS, and for files of TLS that cannot be used. */
export function createDockerClient(address: DockerAddress): DockerClient {
  if (address.kind === 'tcp' && address.tls === undefined && !isLoopback(address.host)) {
    const remedy = 'Give `host.tls` with `caFile`, `certFile` and `keyFile`.'
    throw unavailable(`Docker at ${addressText(address)} is on another machine and has no TLS.`, remedy)
  }
  const secure = address.kind === 'tcp' && address.tls !== undefined
  const agent = secure
    ? new SecureAgent({ keepAlive: true, maxSockets: 64 })
    : new Agent({ keepAlive: true, maxSockets: 64 })
  const base: RequestOptions = { ...targetOf(address), agent }
  const send = (options: RequestOptions): ClientRequest =>
    (secure ? requestSecure : requestPlain)({ ...base, ...options })

  /** Resolves with the head of the answer. */
  const exchange = (options: RequestOptions, body: (request: ClientRequest) => void, signal: AbortSignal) =>
    new Promise<{ readonly response: IncomingMessage; readonly socket?: Duplex; readonly head?: Buffer }>(
      (resolve, reject) => {
        const request = send({ ...options, signal })
        request.on('response', (response) => resolve({ response }))
        request.on('upgrade', (response, socket, head) => resolve({ response, socket, head }))
        request.on('error', (cause) => reject(signal.aborted ? signal.reason : unreachable(address, cause)))
        body(request)
      },
    )
  let version: string | undefined
  /** The path with the version of the API. Asked without one, once, because an engine refuses those that it does not have. */
  const versioned = async (path: string, signal: AbortSignal): Promise<string> => {
    version ??= await askVersion(signal)
    return `/${version ?? textOf(spoken)}${path}`
  }
  /** Undefined when the engine does not say; what is wrong then shows in the request itself. */
  const askVersion = async (signal: AbortSignal): Promise<string | undefined> => {
    try {
      const { response } = await exchange({ method: 'GET', path: '/version' }, (request) => request.end(), signal)
      return commonVersion(await answerOf(response), address)
    } catch (error) {
      if (!(error instanceof DockerError)) throw error
      return undefined
    }
  }
  return {
    address,
    async call(method, path, { signal: given, json, stream, onLine, waitMs = answerMs }) {
      const late = AbortSignal.timeout(waitMs)
      const { signal, leave } = follow(given, late)
      try {
        const text = json === undefined ? undefined : JSON.stringify(json)
        const headers = {
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
          ...(stream === undefined ? {} : { 'content-type': 'application/x-tar' }),
        }
        const { response } = await exchange(
          { method, path: await versioned(path, signal), headers },
          (request) => void (stream === undefined ? request.end(text) : stream.pipe(request)),
          signal,
        )
        return await answerOf(response, onLine)
      } catch (error) {
        given.throwIfAborted()
        if (late.aborted) throw silent(address, waitMs)
        throw error
      } finally {
        leave()
      }
    },
    async events(path, onEvent, signal) {
      const late = new AbortController()
      // Only until the stream is open, which then lasts.
      const timer = setTimeout(() => late.abort(), answerMs)
      try {
        const either = AbortSignal.any([signal, late.signal])
        const { response } = await exchange(
          { method: 'GET', path: await versioned(path, either) },
          (request) => request.end(),
          either,
        )
        if (response.statusCode !== 200) await answerOf(response)
        return { ended: readLines(response, onEvent).catch(() => undefined) }
      } catch (error) {
        signal.throwIfAborted()
        if (late.signal.aborted) throw silent(address, answerMs)
        throw error
      } finally {
        clearTimeout(timer)
      }
    },
    async hijack(path, signal) {
      const late = AbortSignal.timeout(answerMs)
      const both = follow(signal, late)
      try {
        const headers = { connection: 'Upgrade', upgrade: 'tcp', 'content-length': 0 }
        const { response, socket, head } = await exchange(
          { method: 'POST', path: await versioned(path, both.signal), headers, agent: false },
          (request) => request.end(),
          both.signal,
        )
        if (socket === undefined) {
          await answerOf(response)
          throw new DockerError(response.statusCode ?? 0, 'The engine did not upgrade the connection.')
        }
        if (head !== undefined && head.length > 0) socket.unshift(head)
        return socket
      } catch (error) {
        signal.throwIfAborted()
        if (late.aborted) throw silent(address, answerMs)
        throw error
      } finally {
        both.leave()
      }
    },
    close: () => agent.destroy(),
  }
}

type ApiVersion = readonly [major: number, minor: number]

function textOf([major, minor]: ApiVersion): string {
  return `v${major}.${minor}`
}

function readVersion(text: unknown): ApiVersion | undefined {
  const [, major, minor] = (typeof text === 'string' && /^(\d{1,3})\.(\d{1,4})$/.exec(text)) || []
  return major === undefined ? undefined : [Number(major), Number(minor)]
}

function isNewer(one: ApiVersion, other: ApiVersion): boolean {
  return one[0] === other[0] ? one[1] > other[1] : one[0] > other[0]
}

/** The version of the API that an engine and we have; undefined when it does not say its own. */
function commonVersion(answer: unknown, address: DockerAddress): string | undefined {
  const { ApiVersion: last, MinAPIVersion: first } = isObject(answer) ? answer : {}
  const [newest, oldest] = [readVersion(last), readVersion(first)]
  if (newest !== undefined && isNewer(spoken, newest)) {
    const reason = `Docker at ${addressText(address)} has version ${last} of the Engine API, which is older than 1.41.`
    throw unavailable(reason, 'Install Docker 20.10 or newer.')
  }
  if (oldest !== undefined && isNewer(oldest, spoken)) return textOf(oldest)
  return newest === undefined ? undefined : textOf(spoken)
}

function targetOf(address: DockerAddress): RequestOptions {
  if (address.kind === 'socket') return { socketPath: address.path, host: 'docker' }
  const { host, port, tls } = address
  if (tls === undefined) return { host, port }
  const read = (file: string): Buffer => readTlsFile(file, address)
  const files = { ca: read(tls.caFile), cert: read(tls.certFile), key: read(tls.keyFile) }
  try {
    createSecureContext(files)
  } catch (cause) {
    const reason = `The TLS files of Docker at ${addressText(address)} are no certificate with its key: ${tls.certFile}, ${tls.keyFile}.`
    throw unavailable(reason, 'Name PEM files in `runtimes.docker.host.tls`.', cause)
  }
  return { host, port, ...files, minVersion: 'TLSv1.2' } as RequestOptions
}

function readTlsFile(file: string, address: DockerAddress): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    const code = codeOf(cause)
    const reason = `The TLS file ${file} of Docker at ${addressText(address)} cannot be read${code === undefined ? '' : ` (${code})`}.`
    throw unavailable(reason, 'Correct its path in `runtimes.docker.host.tls`, or let this process read it.', cause)
  }
}

/** Whether a name stays on this machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}

/** How the address is written in errors and by `gantry doctor`. */
export function addressText(address: DockerAddress): string {
  if (address.kind === 'socket') return `unix://${address.path}`
  return `tcp://${address.host}:${address.port}`
}

async function answerOf(response: IncomingMessage, onLine?: (line: unknown) => void): Promise<unknown> {
  const { statusCode = 0 } = response
  if (onLine !== undefined && statusCode < 300) return void (await readLines(response, onLine))
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > mostBytes) throw new DockerError(statusCode, 'The answer of the engine is longer than 16 MiB.')
    pieces.push(piece)
  }
  const text = Buffer.concat(pieces).toString()
  if (statusCode >= 300) throw new DockerError(statusCode, messageOf(text))
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    throw new DockerError(statusCode, 'The answer of the engine is not JSON.')
  }
}

async function readLines(response: IncomingMessage, onLine: (line: unknown) => void): Promise<void> {
  let rest = ''
  for await (const piece of response.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > mostBytes) throw new DockerError(0, 'A line of the engine is longer than 16 MiB.')
    for (const line of lines) if (line.trim() !== '') onLine(JSON.parse(line))
  }
  if (rest.trim() !== '') onLine(JSON.parse(rest))
}

/** What the engine says is wrong, bounded, in one line. */
function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown }
    if (typeof message === 'string') return message.replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 500)
  } catch {
    // Not JSON: the text itself is shown.
  }
  return text.replace(/[\p{Cc}\s]+/gu, ' ').slice(0, 500)
}

const remedies: { readonly [code: string]: string } = {
  ENOENT: 'Start the engine, or name its socket in `runtimes.docker.socket`.',
  ECONNREFUSED: 'Start the engine, or name its socket in `runtimes.docker.socket`.',
  EACCES: 'Give this process access to the socket, such as by the group `docker`.',
}

function unreachable(address: DockerAddress, cause: Error & { readonly code?: string }): ToolError {
  // Errors of the parser of HTTP: what answers speaks another protocol, as containerd does.
  if (cause.code?.startsWith('HPE_') === true) return noDocker(address, cause)
  const reason = `Docker at ${addressText(address)} is unreachable${cause.code === undefined ? '' : ` (${cause.code})`}.`
  return unavailable(reason, remedies[cause.code ?? ''] ?? 'Look at the log of the engine.', cause)
}

/** Something else than Docker answers at the address. */
export function noDocker(address: DockerAddress, cause?: unknown): ToolError {
  const remedy = 'Name the socket of the engine in `runtimes.docker.socket`.'
  return unavailable(`What answers at ${addressText(address)} is no Docker engine.`, remedy, cause)
}

function silent(address: DockerAddress, waitMs: number): ToolError {
  const reason = `Docker at ${addressText(address)} did not answer within ${waitMs / 1_000} s.`
  return unavailable(reason, 'Look at the log of the engine; restart it if it hangs.')
}

/** An error of the engine as callers see it: the reason of the signal, RUNTIME_UNAVAILABLE with what the engine said, or itself. */
export function engineRefusal(error: unknown, address: DockerAddress, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (!(error instanceof DockerError)) return error
  const said = `Docker at ${addressText(address)} refused the request: ${error.message}`
  return unavailable(/[.!?]$/.test(said) ? said : `${said}.`, 'Look at the log of the engine.', error)
}

/** Whether the engine may have got a request that ended with this error: not when it answered, nor without a connection. */
export function mayHaveArrived(error: unknown): boolean {
  if (error instanceof DockerError) return false
  const { code } = (ToolError.is(error) ? (error.cause ?? {}) : {}) as { readonly code?: string }
  return code === undefined || remedies[code] === undefined
}

export function unavailable(reason: string, remedy: string, cause?: unknown): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, {
    details: { reason, remedy },
    ...(cause === undefined ? {} : { cause }),
  })
}
