import { checkOptions } from '../options/options.ts'
import {
  type Breaker,
  type BreakerOptions,
  type BreakersOptions,
  breakersCheck,
  createBreaker,
  type KeyedJson,
  type Permit,
} from './breaker.ts'
import { type BreakerEvent, refusal, steadyNow } from './circuit.ts'
import { circuitKey, readBreaker, readCircuitKey, readRows, type TenantState } from './circuit-state.ts'

/** An event of the circuit of one tenant, or, without a tenant, of the shared circuit; `name` is the same for both. */
export type TenantCircuitEvent = BreakerEvent & { readonly tenant?: string }

export interface TenantCircuitsOptions extends Omit<BreakersOptions, 'onEvent'> {
  readonly onEvent?: (event: TenantCircuitEvent) => void
}

/**
 * Circuits per tenant: one tenant cannot open the circuit of another.
 *
 * Every tenant has its own window and circuit for each name, because a fault may be caused by the arguments of the
 * tenant. Faults of several tenants open the *shared* circuit:
 * - The shared circuit opens when the circuits of at least two tenants are open at the same time, and those tenants are
 *   at least `failureRatio` of the tenants that used it recently. It refuses all tenants until the last of those open
 *   periods ends.
 * - After that each tenant makes one trial. A successful trial closes the shared circuit and the circuit of its tenant. A
 *   failed trial opens the circuit of its tenant for longer; when the trial of a second tenant fails too, the shared
 *   circuit opens again.
 * - A process that serves one tenant has only the circuits of that tenant.
 *
 * At most `most` circuits are kept. A further one evicts a circuit of the tenant with the most: one without failures
 * first, then the least recently used. A call without an outcome for its backend creates no circuit.
 */
export interface TenantCircuits {
  /** Permits one call of a tenant, or throws CIRCUIT_OPEN. */
  enter(circuit: string, tenant: string): Permit
  /** The circuit whose trial the next call of this tenant would be; undefined when it would not be a trial. */
  due(circuit: string, tenant: string): Breaker | undefined
  /** Opens the circuit of a tenant, or without a tenant the shared one, because another process did. */
  hold(circuit: string, tenant: string | undefined, restMs: number, streak: number): void
  /** Closes the circuit of a tenant, or without a tenant the shared one, because another process did. */
  close(circuit: string, tenant: string | undefined): void
  /** Closes a circuit for all tenants, or for one; returns whether a circuit was not closed before. */
  reset(circuit: string, tenant?: string): boolean
  list(): TenantState[]
  snapshot(): KeyedJson[]
  /** Adds the circuits of a `snapshot`; throws CONFIG_INVALID for anything else. */
  restore(json: unknown): void
}

export function createTenantCircuits(options: TenantCircuitsOptions = {}): TenantCircuits {
  checkOptions('options of createTenantCircuits', breakersCheck, options)
  return new Circuits(options)
}

/** The circuit of one tenant. */
interface Own {
  readonly kind: 'own'
  readonly breaker: Breaker
  readonly tenant: string
  /** Open because of the shared circuit, not because of faults of this tenant. */
  follows: boolean
  /** Sequence number of the last use, for eviction. */
  used: number
}

/** The open period of the shared circuit; each tenant makes the trials of its own circuit. */
interface Shared {
  readonly kind: 'shared'
  readonly since: number
  readonly openMs: number
  readonly streak: number
  readonly until: number
  used: number
}

interface CircuitEntry {
  readonly circuit: string
  shared: Shared | undefined
  readonly owns: Map<string, Own>
}

class Circuits implements TenantCircuits {
  readonly #each: Omit<BreakerOptions, 'name' | 'onEvent'>
  readonly #onEvent: ((event: TenantCircuitEvent) => void) | undefined
  readonly #most: number
  readonly #ratio: number
  readonly #windowMs: number
  readonly #maxOpenMs: number
  readonly #now: () => number
  readonly #places = new Map<string, CircuitEntry>()
  /** Circuits per tenant; the shared ones are under `undefined`. */
  readonly #counts = new Map<string | undefined, number>()
  #size = 0
  #uses = 0
  /** True while the circuit of a tenant changes because of the shared circuit. */
  #following = false

  constructor({ most = 1_000, onEvent, ...each }: TenantCircuitsOptions) {
    this.#each = each
    this.#onEvent = onEvent
    this.#most = most
    this.#ratio = each.failureRatio ?? 0.5
    this.#windowMs = each.windowMs ?? 60_000
    this.#maxOpenMs = Math.max(each.maxOpenMs ?? 60_000, each.openMs ?? 5_000)
    this.#now = each.now ?? steadyNow
  }

  enter(circuit: string, tenant: string): Permit {
    const place = this.#places.get(circuit)
    if (place?.shared !== undefined) this.#checkShared(place, place.shared, tenant, true)
    const own = place?.owns.get(tenant)
    if (own === undefined) return new FirstPermit(() => this.#first(circuit, tenant))
    own.used = ++this.#uses
    return own.breaker.enter()
  }

  due(circuit: string, tenant: string): Breaker | undefined {
    const place = this.#places.get(circuit)
    if (place?.shared !== undefined) this.#checkShared(place, place.shared, tenant, false)
    const own = place?.owns.get(tenant)?.breaker
    return own?.due === true ? own : undefined
  }

  hold(circuit: string, tenant: string | undefined, restMs: number, streak: number): void {
    if (tenant === undefined) {
      this.#share(this.#place(circuit), restMs, streak, { elsewhere: true })
    } else {
      this.#own(circuit, tenant).breaker.hold(restMs, streak)
      if (restMs > 0) this.#openSharedIfDue(this.#place(circuit), restMs, streak)
    }
  }

  close(circuit: string, tenant: string | undefined): void {
    const place = this.#places.get(circuit)
    if (place === undefined) return
    if (tenant === undefined) this.#unshare(place, { elsewhere: true })
    else place.owns.get(tenant)?.breaker.close()
  }

  reset(circuit: string, tenant?: string): boolean {
    const place = this.#places.get(circuit)
    if (place === undefined) return false
    const owns = [...place.owns.values()].filter((own) => tenant === undefined || own.tenant === tenant)
    const open = owns.filter(({ breaker }) => breaker.state.state !== 'closed')
    const shared = tenant === undefined && place.shared !== undefined
    for (const { breaker } of open) breaker.close()
    if (shared) this.#unshare(place, { elsewhere: true })
    return shared || open.length > 0
  }

  list(): TenantState[] {
    return [...this.#places.values()].flatMap((place): TenantState[] => {
      const { circuit, shared } = place
      const owns = [...place.owns.values()].map(({ tenant, breaker }) => ({
        ...breaker.state,
        key: circuitKey(circuit, tenant),
        circuit,
        tenant,
      }))
      if (shared === undefined) return owns
      const { since, openMs, until: retryAt } = shared
      return [{ state: 'open', since, openMs, retryAt, calls: 0, failures: 0, key: circuit, circuit }, ...owns]
    })
  }

  snapshot(): KeyedJson[] {
    return [...this.#places.values()].flatMap(({ circuit, shared, owns }): KeyedJson[] => {
      const rows = [...owns.values()].map(({ tenant, breaker }) => ({
        key: circuitKey(circuit, tenant),
        breaker: breaker.toJSON(),
      }))
      if (shared === undefined) return rows
      const { since, openMs, streak, until: retryAt } = shared
      return [{ key: circuit, breaker: { state: 'open', since, streak, openMs, window: [], retryAt } }, ...rows]
    })
  }

  restore(json: unknown): void {
    const scratch = createBreaker(this.#each)
    const rows = readRows(json, this.#most)
    for (const { breaker } of rows) scratch.restore(breaker)
    for (const { key, breaker } of rows) {
      const { circuit, tenant } = readCircuitKey(key)
      if (tenant !== undefined) this.#own(circuit, tenant).breaker.restore(breaker)
      else {
        const kept = readBreaker(breaker)
        if (kept.state === 'open') this.hold(circuit, undefined, kept.retryAt - this.#now(), kept.streak)
      }
    }
  }

  /** Refuses a call while the shared circuit is open; after that one call per tenant is admitted as its trial. */
  #checkShared(place: CircuitEntry, shared: Shared, tenant: string, refuses: boolean): void {
    const now = this.#now()
    shared.used = ++this.#uses
    if (now < shared.until) {
      if (refuses) throw refusal(place.circuit, shared.until - now)
    } else if (now >= shared.until + this.#windowMs) {
      this.#unshare(place)
    } else {
      const own = this.#own(place.circuit, tenant)
      if (own.breaker.state.state === 'closed') this.#follow(own, () => own.breaker.hold(0, shared.streak))
    }
  }

  /** Changes the circuit of a tenant because of the shared one; the event is emitted as a local one. */
  #follow(own: Own, change: () => void): void {
    this.#following = true
    change()
    this.#following = false
    own.follows = own.breaker.state.state !== 'closed'
  }

  /** Opens the shared circuit when at least two tenants, and at least `failureRatio` of the tenants, see faults. */
  #openSharedIfDue(place: CircuitEntry, restMs: number, streak: number): void {
    let [failing, healthy] = [0, 0]
    for (const { breaker } of place.owns.values()) {
      const { state } = breaker
      if (state.state === 'open' && !breaker.due) failing += 1
      else if (state.state === 'closed' && state.calls > state.failures) healthy += 1
    }
    if (failing >= 2 && failing >= this.#ratio * (failing + healthy)) this.#share(place, restMs, streak)
  }

  #share(place: CircuitEntry, restMs: number, streak: number, source: { readonly elsewhere?: true } = {}): void {
    const at = this.#now()
    const openMs = Math.round(Math.max(0, Math.min(restMs, this.#maxOpenMs)))
    const before = place.shared
    const until = Math.max(before?.until ?? 0, at + openMs)
    if (before === undefined) this.#reserve(undefined)
    // The eviction may have dropped the last circuit of this entry, and the entry with it.
    this.#places.set(place.circuit, place)
    place.shared = {
      kind: 'shared',
      since: before?.since ?? at,
      openMs: Math.max(openMs, before?.openMs ?? 0),
      streak: Math.max(streak, before?.streak ?? 0),
      until,
      used: ++this.#uses,
    }
    const news = before === undefined || (before.until <= at && until > at && source.elsewhere !== true)
    if (news)
      this.#tell({ kind: 'opened', name: place.circuit, at, retryAt: until, streak: place.shared.streak, ...source })
  }

  #unshare(place: CircuitEntry, source: { readonly elsewhere?: true } = {}): void {
    if (place.shared === undefined) return
    place.shared = undefined
    this.#leave(place, undefined)
    this.#tell({ kind: 'closed', name: place.circuit, at: this.#now(), ...source })
    for (const own of place.owns.values()) {
      if (own.follows && own.breaker.state.state === 'open') this.#follow(own, () => own.breaker.close())
    }
  }

  #changed(place: CircuitEntry, tenant: string, change: BreakerEvent): void {
    const { elsewhere, ...event } = change
    const own = elsewhere !== true || this.#following
    this.#tell({ ...event, tenant, ...(own ? {} : { elsewhere: true }) })
    if (!own || this.#following) return
    const kept = place.owns.get(tenant)
    if (kept !== undefined && event.kind !== 'trial') kept.follows = false
    if (event.kind === 'opened') this.#openSharedIfDue(place, event.retryAt - event.at, event.streak)
    if (event.kind === 'closed') this.#unshare(place)
  }

  #tell(event: TenantCircuitEvent): void {
    this.#onEvent?.(event)
  }

  #place(circuit: string): CircuitEntry {
    const known = this.#places.get(circuit)
    if (known !== undefined) return known
    const place: CircuitEntry = { circuit, shared: undefined, owns: new Map() }
    this.#places.set(circuit, place)
    return place
  }

  /** Counts a call that started before its tenant had a circuit, unless other calls have opened one meanwhile. */
  #first(circuit: string, tenant: string): Permit | undefined {
    const { breaker } = this.#own(circuit, tenant)
    return breaker.state.state === 'closed' ? breaker.enter() : undefined
  }

  #own(circuit: string, tenant: string): Own {
    const known = this.#places.get(circuit)?.owns.get(tenant)
    if (known !== undefined) return known
    this.#reserve(tenant)
    const place = this.#place(circuit)
    const onEvent = (event: BreakerEvent): void => this.#changed(place, tenant, event)
    const breaker = createBreaker({ ...this.#each, name: circuit, onEvent })
    const own: Own = { kind: 'own', breaker, tenant, follows: false, used: ++this.#uses }
    place.owns.set(tenant, own)
    return own
  }

  /** Evicts a circuit of the tenant with the most when there are too many, then counts one more for this tenant. */
  #reserve(tenant: string | undefined): void {
    if (this.#size >= this.#most) this.#drop()
    this.#size += 1
    this.#counts.set(tenant, (this.#counts.get(tenant) ?? 0) + 1)
  }

  #leave(place: CircuitEntry, tenant: string | undefined): void {
    if (place.shared === undefined && place.owns.size === 0) this.#places.delete(place.circuit)
    const count = (this.#counts.get(tenant) ?? 1) - 1
    if (count > 0) this.#counts.set(tenant, count)
    else this.#counts.delete(tenant)
    this.#size -= 1
  }

  #drop(): void {
    let owner: string | undefined
    let most = 0
    for (const [tenant, count] of this.#counts) {
      if (count > most) [owner, most] = [tenant, count]
    }
    let least: { readonly place: CircuitEntry; readonly used: number; readonly healthy: boolean } | undefined
    for (const place of this.#places.values()) {
      const kept = owner === undefined ? place.shared : place.owns.get(owner)
      if (kept === undefined) continue
      const healthy = kept.kind === 'own' && isHealthy(kept.breaker)
      const sooner = least === undefined || (healthy === least.healthy ? kept.used < least.used : healthy)
      if (sooner) least = { place, used: kept.used, healthy }
    }
    if (least === undefined) return
    if (owner === undefined) least.place.shared = undefined
    else least.place.owns.delete(owner)
    this.#leave(least.place, owner)
  }
}

function isHealthy({ state }: Breaker): boolean {
  return state.state === 'closed' && state.failures === 0
}

/** A permit for a call without a circuit: the circuit is created when the call has an outcome for its backend. */
class FirstPermit implements Permit {
  readonly trial = false
  #enter: (() => Permit | undefined) | undefined

  constructor(enter: () => Permit | undefined) {
    this.#enter = enter
  }

  succeed(): void {
    this.#settle()?.succeed()
  }

  fault(): void {
    this.#settle()?.fault()
  }

  leave(): void {
    this.#enter = undefined
  }

  #settle(): Permit | undefined {
    const enter = this.#enter
    this.#enter = undefined
    return enter?.()
  }
}
