import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { codes, ToolError } from '@gantry/contract'
import type { Egress, EgressScope } from '@gantry/core/internal/egress/egress'
import type { CertificateAuthority } from './certificate-authority.ts'
import type { AllowedOrigin, Authority } from './origins.ts'
import type { BrokeredSecret } from './secrets.ts'

/** Network limits of one sandbox. */
export interface EgressProxyLimits {
  /** Connections at once; 64. */
  readonly connections: number
  /** Bytes of one request's head; 16 KiB. */
  readonly headBytes: number
  /** Time until the head of a request is complete; 10 s. */
  readonly headMs: number
  /** Idle time of a connection without bytes in either direction; 60 s. */
  readonly idleMs: number
  /** Bytes to the sandbox on one connection, without heads; 64 MiB, or the body limit of egress. */
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

/** Counts the bytes of one connection; throws LIMIT_EXCEEDED before bytes above the limit are forwarded. */
export interface Meter {
  up(bytes: number): void
  down(bytes: number): void
}

/** The byte budget that all connections of a sandbox share. */
interface Budget {
  /** The refusal of a further connection, when the budget is used up. */
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

/** Forwards chunks within the limits of the meter. */
export async function* counted(
  source: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    count(piece.byteLength)
    yield piece
  }
}

/** Everything that the connections of one sandbox share. */
export interface ProxyPorts {
  readonly egress: Egress
  readonly owner: string
  readonly tenant?: string
  /** The sandbox's own origin list, passed to egress with every request. */
  readonly only: readonly string[]
  readonly origins: readonly AllowedOrigin[]
  readonly limits: EgressProxyLimits
  /** The secrets behind the placeholders. */
  readonly secrets: readonly BrokeredSecret[]
  /** Issues certificates for hosts that may receive a secret; present with credentials only. */
  readonly authority?: CertificateAuthority
}

/** The owner, tenant and limits under which a sandbox uses egress. */
export function scopeOf({ owner, tenant, only }: ProxyPorts): EgressScope {
  const scope = {
    owner,
    only,
    onlyName: 'the list of origins of this program (`network.allow`, or the egress of its tool)',
  }
  return tenant === undefined ? scope : { ...scope, tenant }
}

/** One request from the sandbox to egress. */
export interface ProxiedRequest {
  /** Aborted when the client no longer waits for the response. */
  readonly signal: AbortSignal
  readonly meter: Meter
  /** The target of the tunnel that the request came through. */
  readonly inside?: Authority | undefined
  /** Whether the request came over TLS. */
  readonly secure: boolean
  /** Marks the start of the response: the sandbox reads it from now on. */
  answered(): void
  /** Resets the idle time when bytes arrive that are not forwarded yet. */
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
  /** The target of a tunnel that carries plain HTTP. */
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
    socket.setTimeout(idleMs, () => this.fail(new ToolError('TIMEOUT', `The connection was idle for ${idleMs} ms.`)))
    socket.once('close', () => this.#end(new ToolError('CANCELLED', 'The sandbox closed the connection.')))
  }

  /** Aborted when the connection ends. */
  get signal(): AbortSignal {
    return this.#gone.signal
  }

  /** Accepts the one request of the connection; a second one fails both. */
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

  /** Ends the connection, with the reason while no response has begun. */
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

/** A malformed request, or one that is not for a proxy. */
export function badRequest(message: string): ToolError {
  return new ToolError('INPUT_INVALID', message, { stage: 'execute' })
}

/** A request that names two hosts: one would be checked and the other contacted. */
export function otherHost(): ToolError {
  return badRequest('The Host header names another host than the request.')
}

/** A refusal as the client receives it: a status and one line. */
interface Refused {
  readonly status: number
  readonly body: string
}

/**
 * The message of an error that the client may see. Messages of egress name what was requested, never its address;
 * other errors are not shown.
 */
export function refused(error: unknown): Refused {
  const { code, message } = ToolError.is(error) ? error : new ToolError('INTERNAL', 'The proxy failed.')
  // A limit of the sandbox is the fault of neither the request nor the server.
  const status = code === 'LIMIT_EXCEEDED' ? 503 : codes[code].http
  return { status, body: `${`${code}: ${message}`.replace(/[^ -~]+/g, ' ').slice(0, 1_000)}\n` }
}

/** The refusal as a complete response. */
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
