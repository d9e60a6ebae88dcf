import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import type { Egress, EgressScope } from '@gantry/core/internal/egress/egress'
import type { AllowedOrigin } from './allow.ts'
import type { Authority } from './authority.ts'
import type { CertificateAuthority } from './certificate-authority.ts'
import type { EgressProxyLimits, Meter } from './limits.ts'
import type { Standing } from './placeholder.ts'
import { badRequest, refusal } from './refusal.ts'

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
  readonly standing: readonly Standing[]
  /** Shows certificates to the sandbox for hosts that may be told a secret; there when something stands for one. */
  readonly authority?: CertificateAuthority
}

/** In whose name a sandbox asks egress, and how far. */
export function scopeOf({ owner, tenant, only }: ProxyPorts): EgressScope {
  return tenant === undefined ? { owner, only } : { owner, tenant, only }
}

/** What one request goes through on its way out. */
export interface Passage {
  /** Aborted when nobody waits for the answer any more. */
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
 * One connection of a sandbox, which carries one request: whatever comes behind that, nobody can take for a second.
 *
 * It *waits* for a head, and not for long; is *busy* with what the head asked for, until it is *answered*; and is
 * *over* when all of that is through, when it failed, or when the sandbox went away. It fails with a reason as long as
 * it is not answered, after that only by being cut. A tunnel to an `http` origin waits once more, for the head inside.
 */
export class Line implements Passage {
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

  /** Aborted when the connection is over. */
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

/** Says why not and hangs up. */
export function refuse(socket: Socket, error: unknown): void {
  socket.end(refusal(error), () => socket.destroy())
}
