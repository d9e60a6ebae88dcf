import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { codes, ToolError } from '@gantry/contract'
import type { Egress, EgressScope } from '@gantry/core/internal/egress/egress'
import type { CertificateAuthority } from './certificate-authority.ts'
import type { AllowedOrigin, Authority } from './origins.ts'
import type { BrokeredSecret } from './secrets.ts'

/** What one sandbox may use of the network; every one is a ceiling. */
export interface EgressProxyLimits {
  /** Connections at once; 64. */
  readonly connections: number
  /** Bytes of one request's head; 16 KiB. */
  readonly headBytes: number
  /** Time until the head of a request is complete; 10 s. */
  readonly headMs: number
  /** Time in which nothing moves on a connection, in neither direction; 60 s. */
  readonly idleMs: number
  /** Bytes to the sandbox on one connection, without heads; 64 MiB, or what egress allows of one body. */
  readonly downBytes: number
  /** Bytes from the sandbox on one connection; 16 MiB. */
  readonly upBytes: number
  /** Bytes of all connections in both directions; 256 MiB. */
  readonly totalBytes: number
}

export const usualLimits: EgressProxyLimits = {
  connections: 64,
  headBytes: 16_384,
  headMs: 10_000,
  idleMs: 60_000,
  downBytes: 67_108_864,
  upBytes: 16_777_216,
  totalBytes: 268_435_456,
}

/** Counts what goes over one connection; throws LIMIT_EXCEEDED before the bytes that are too many go on. */
export interface Meter {
  up(bytes: number): void
  down(bytes: number): void
}

/** What all connections of a sandbox share. */
interface Budget {
  /** Why there is no room for one more connection, when nothing is left. */
  refusal(): ToolError | undefined
  meter(): Meter
}

export function createBudget({ upBytes, downBytes, totalBytes }: EgressProxyLimits): Budget {
  let left = totalBytes
  const spent = (): ToolError => overLimit(`The sandbox has used up its ${totalBytes} bytes of network.`)
  const counter = (most: number, words: string): ((bytes: number) => void) => {
    let bytes = 0
    return (more) => {
      bytes += more
      left -= more
      if (bytes > most) throw overLimit(`A connection may carry ${most} bytes ${words} the sandbox.`)
      if (left < 0) throw spent()
    }
  }
  return {
    refusal: () => (left > 0 ? undefined : spent()),
    meter: () => ({ up: counter(upBytes, 'from'), down: counter(downBytes, 'to') }),
  }
}

export function overLimit(message: string): ToolError {
  return new ToolError('LIMIT_EXCEEDED', message)
}

/** Passes pieces on while the meter lets them. */
export async function* counted(
  source: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    count(piece.byteLength)
    yield piece
  }
}

/** What every connection of one sandbox goes through. */
export interface ProxyPorts {
  readonly egress: Egress
  readonly owner: string
  readonly tenant?: string
  /** The sandbox's own list, the same for egress at every request. */
  readonly only: readonly string[]
  readonly origins: readonly AllowedOrigin[]
  readonly limits: EgressProxyLimits
  /** What placeholders stand for. */
  readonly secrets: readonly BrokeredSecret[]
  /** Issues certificates for hosts that may receive a secret; present with credentials only. */
  readonly authority?: CertificateAuthority
}

/** In whose name a sandbox asks egress, and how far. */
export function scopeOf({ owner, tenant, only }: ProxyPorts): EgressScope {
  return tenant === undefined ? { owner, only } : { owner, tenant, only }
}

/** One request on its way from the sandbox to egress. */
export interface ProxiedRequest {
  /** Aborted when the client no longer waits for the response. */
  readonly signal: AbortSignal
  readonly meter: Meter
  /** Where the tunnel leads whose inside the request came from. */
  readonly inside?: Authority | undefined
  /** Whether the request came encrypted. */
  readonly secure: boolean
  /** From here on the sandbox reads what it asked for. */
  answered(): void
  /** Something came that may have to wait before it goes on: the connection is in use. */
  moved(): void
}

/**
 * ## Proxy connection
 *
 * One connection of a sandbox. It carries one request, so that trailing bytes cannot pass for a second one.
 *
 * | from               | to         | cause                                                     |
 * | ------------------ | ---------- | --------------------------------------------------------- |
 * | –                  | `waits`    | accepted; the clock of the request head starts            |
 * | `waits`            | `busy`     | `begin`: the head is complete                             |
 * | `busy`             | `waits`    | `beginInside`: a tunnel to an `http` origin was opened    |
 * | `busy`             | `answered` | `answered`: the response begins                           |
 * | any                | `over`     | complete, failed, or the sandbox closed the connection    |
 *
 * Before `answered` a failure is sent as an HTTP response; after it the connection is cut.
 */
export class ProxyConnection implements ProxiedRequest {
  readonly socket: Socket
  readonly meter: Meter
  readonly secure = false
  /** Where a tunnel leads whose inside is HTTP. */
  inside: Authority | undefined
  readonly #headMs: number
  readonly #idleMs: number
  readonly #gone = new AbortController()
  #head: NodeJS.Timeout
  #state: 'waits' | 'busy' | 'answered' | 'over' = 'waits'

  constructor(socket: Socket, meter: Meter, { headMs, idleMs }: EgressProxyLimits) {
    this.socket = socket
    this.meter = meter
    this.#headMs = headMs
    this.#idleMs = idleMs
    this.#head = this.#startClock()
    socket.setTimeout(idleMs, () => this.fail(new ToolError('TIMEOUT', `Nothing moved for ${idleMs} ms.`)))
    socket.once('close', () => this.#end(new ToolError('CANCELLED', 'The sandbox closed the connection.')))
  }

  /** Aborted when the connection ends. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  /** Takes the one request of the connection; a second one fails them both. */
  begin(headBytes: number): boolean {
    const first = this.#state === 'waits'
    if (first) this.#state = 'busy'
    clearTimeout(this.#head)
    if (!first) this.fail(badRequest('One connection carries one request; open another for the next.'))
    else this.meter.up(headBytes)
    return first
  }

  answered(): void {
    if (this.#state === 'busy') this.#state = 'answered'
  }

  moved(): void {
    this.socket.setTimeout(this.#idleMs)
  }

  /** Waits for the head of the request inside a tunnel to `authority`. */
  beginInside(authority: Authority): void {
    this.inside = authority
    this.#state = 'waits'
    this.#head = this.#startClock()
  }

  /** Ends the connection, with the reason where there is still room for one. */
  fail(error: unknown): void {
    if (this.#state === 'over') return
    const late = this.#state === 'answered'
    this.#end(error)
    if (late) this.socket.destroy()
    else refuse(this.socket, error)
  }

  #startClock(): NodeJS.Timeout {
    return setTimeout(() => this.fail(badRequest(`No request was complete within ${this.#headMs} ms.`)), this.#headMs)
  }

  #end(reason: unknown): void {
    this.#state = 'over'
    clearTimeout(this.#head)
    this.#gone.abort(reason)
  }
}

/** Sends the refusal and closes the connection. */
export function refuse(socket: Socket, error: unknown): void {
  socket.end(refusal(error), () => socket.destroy())
}

/** A request that is not one, or not one for a proxy. */
export function badRequest(message: string): ToolError {
  return new ToolError('INPUT_INVALID', message, { stage: 'execute' })
}

/** A request that names two hosts, of which one would be checked and the other one asked. */
export function otherHost(): ToolError {
  return badRequest('The Host header names another host than the request.')
}

/** A refusal as the client receives it: a status and one line. */
interface Refused {
  readonly status: number
  readonly body: string
}

/**
 * The message of an error that the client may see. Messages of egress name what was requested, never the address behind
 * it; any other error is not shown.
 */
export function refused(error: unknown): Refused {
  const { code, message } = ToolError.is(error) ? error : new ToolError('INTERNAL', 'The proxy failed.')
  // A limit of the sandbox is neither the request's fault nor the server's.
  const status = code === 'LIMIT_EXCEEDED' ? 503 : codes[code].http
  return { status, body: `${`${code}: ${message}`.replace(/[^ -~]+/g, ' ').slice(0, 1_000)}\n` }
}

/** The same as a whole response. */
export function refusal(error: unknown): string {
  const { status, body } = refused(error)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Failed'}`,
    'content-type: text/plain',
    `content-length: ${body.length}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
