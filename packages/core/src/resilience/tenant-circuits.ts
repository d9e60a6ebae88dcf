import {
  type Breaker,
  type BreakerOptions,
  type BreakersOptions,
  breakerShapes,
  createBreaker,
  type KeyedJson,
  type Permit,
  readRows,
} from './breaker.ts'
import { type BreakerEvent, readBreaker, refusal, steadyNow } from './circuit.ts'
import { circuitKey, readCircuitKey, type TenantState } from './circuit-summary.ts'
import { checkShapes } from './options.ts'

/** An event of one tenant's circuit, or, without a tenant, of the circuit that all share; `name` is the same for both. */
export type TenantCircuitEvent = BreakerEvent & { readonly tenant?: string }

export interface TenantCircuitsOptions extends Omit<BreakersOptions, 'onEvent'> {
  readonly onEvent?: (event: TenantCircuitEvent) => void
}

/**
 * Circuits that one tenant cannot open for another.
 *
 * Every tenant has a window and a circuit of its own for each name, because a fault may come from what the tenant asked
 * for. What no tenant can be blamed for alone opens the *shared* circuit:
 * - The shared circuit opens when the circuits of at least two tenants rest at the same time, and those tenants are at
 *   least `failureRatio` of the tenants that lately used it. It refuses everyone, for as long as the last of them rests.
 * - After that rest each tenant makes one trial of its own. A trial that succeeds closes the shared circuit and the
 *   circuit of its tenant. One that fails opens the circuit of its tenant alone, for longer; when a second tenant's
 *   trial fails too, the shared circuit opens again.
 * - A process that serves one tenant has only that tenant's circuits.
 *
 * At most `most` circuits are kept. A further one replaces a circuit of the tenant that has the most of them: one without
 * failures first, then the one longest unused. A call that says nothing about its backend makes no circuit.
 */
export interface TenantCircuits {
  /** Leave for one call of a tenant; throws CIRCUIT_OPEN. */
  enter(circuit: string, tenant: string): Permit
  /** The circuit that the next call of this tenant would be the trial of; undefined when it would be none. */
  due(circuit: string, tenant: string): Breaker | undefined
  /** Opens a circuit because other processes did; without a tenant the shared one. */
  hold(circuit: string, tenant: string | undefined, restMs: number, streak: number): void
  /** Closes the circuit of a tenant, or the shared one, because other processes did. */
  close(circuit: string, tenant: string | undefined): void
  /** Closes a circuit for everyone, or for one tenant; whether there was one that was not closed. */
  reset(circuit: string, tenant?: string): boolean
  list(): TenantState[]
  snapshot(): KeyedJson[]
  /** Takes up what `snapshot` gave, beside what is there; CONFIG_INVALID when it is anything else. */
  restore(json: unknown): void
}

export function createTenantCircuits(options: TenantCircuitsOptions = {}): TenantCircuits {
  const { name: _, ...shapes } = breakerShapes
  checkShapes('createBreakers', options, { ...shapes, most: { kind: 'number', least: 1, whole: true } })
  return new Circuits(options)
}

/** The circuit of one tenant. */
interface Own {
  readonly kind: 'own'
  readonly breaker: Breaker
  readonly tenant: string
  /** It is open because of the shared circuit, and not by faults of its own. */
  follows: boolean
  /** Counts up with each use, for the order in which circuits are dropped. */
  used: number
}

/** A rest that several tenants asked for; each tenant makes the trials of its own circuit. */
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
  /** How many circuits each tenant has; the shared ones are under `undefined`. */
  readonly #counts = new Map<string | undefined, number>()
  #size = 0
  #uses = 0
  /** A tenant's circuit is being opened because of the shared one. */
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
    if (place?.shared !== undefined) this.#heed(place, place.shared, tenant, true)
    const own = place?.owns.get(tenant)
    if (own === undefined) return new FirstPermit(() => this.#first(circuit, tenant))
    own.used = ++this.#uses
    return own.breaker.enter()
  }

  due(circuit: string, tenant: string): Breaker | undefined {
    const place = this.#places.get(circuit)
    if (place?.shared !== undefined) this.#heed(place, place.shared, tenant, false)
    const own = place?.owns.get(tenant)?.breaker
    return own?.due === true ? own : undefined
  }

  hold(circuit: string, tenant: string | undefined, restMs: number, streak: number): void {
    if (tenant === undefined) {
      this.#share(this.#place(circuit), restMs, streak, { elsewhere: true })
    } else {
      this.#own(circuit, tenant).breaker.hold(restMs, streak)
      if (restMs > 0) this.#consider(this.#place(circuit), restMs, streak)
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
        ...{ key: circuitKey(circuit, tenant), circuit, tenant },
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

  /** Refuses a call while the shared circuit rests; after that one call of each tenant goes through, as its trial. */
  #heed(place: CircuitEntry, shared: Shared, tenant: string, refuses: boolean): void {
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

  /** Changes the circuit of a tenant because of the shared one; other processes hear of it as of a finding of this one. */
  #follow(own: Own, change: () => void): void {
    this.#following = true
    change()
    this.#following = false
    own.follows = own.breaker.state.state !== 'closed'
  }

  /** Opens the shared circuit when several tenants, and not a few of many, find the backend at fault. */
  #consider(place: CircuitEntry, restMs: number, streak: number): void {
    let [resting, well] = [0, 0]
    for (const { breaker } of place.owns.values()) {
      const { state } = breaker
      if (state.state === 'open' && !breaker.due) resting += 1
      else if (state.state === 'closed' && state.calls > state.failures) well += 1
    }
    if (resting >= 2 && resting >= this.#ratio * (resting + well)) this.#share(place, restMs, streak)
  }

  #share(place: CircuitEntry, restMs: number, streak: number, source: { readonly elsewhere?: true } = {}): void {
    const at = this.#now()
    const openMs = Math.round(Math.max(0, Math.min(restMs, this.#maxOpenMs)))
    const before = place.shared
    const until = Math.max(before?.until ?? 0, at + openMs)
    if (before === undefined) this.#room(undefined)
    // Making room may have dropped the last circuit here, and the place with it.
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

  #changed(place: CircuitEntry, tenant: string, told: BreakerEvent): void {
    const { elsewhere, ...event } = told
    const own = elsewhere !== true || this.#following
    this.#tell({ ...event, tenant, ...(own ? {} : { elsewhere: true }) })
    if (!own || this.#following) return
    const kept = place.owns.get(tenant)
    if (kept !== undefined && event.kind !== 'trial') kept.follows = false
    if (event.kind === 'opened') this.#consider(place, event.retryAt - event.at, event.streak)
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

  /** Counts a call that began before its tenant had a circuit, unless other calls have opened one meanwhile. */
  #first(circuit: string, tenant: string): Permit | undefined {
    const { breaker } = this.#own(circuit, tenant)
    return breaker.state.state === 'closed' ? breaker.enter() : undefined
  }

  #own(circuit: string, tenant: string): Own {
    const known = this.#places.get(circuit)?.owns.get(tenant)
    if (known !== undefined) return known
    this.#room(tenant)
    const place = this.#place(circuit)
    const onEvent = (event: BreakerEvent): void => this.#changed(place, tenant, event)
    const breaker = createBreaker({ ...this.#each, name: circuit, onEvent })
    const own: Own = { kind: 'own', breaker, tenant, follows: false, used: ++this.#uses }
    place.owns.set(tenant, own)
    return own
  }

  /** Counts one more circuit of a tenant, after one of the tenant with the most was dropped where there are too many. */
  #room(tenant: string | undefined): void {
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
    const [[owner]] = [...this.#counts].sort(([, one], [, other]) => other - one) as [[string | undefined, number]]
    let least: { readonly place: CircuitEntry; readonly used: number; readonly well: boolean } | undefined
    for (const place of this.#places.values()) {
      const kept = owner === undefined ? place.shared : place.owns.get(owner)
      if (kept === undefined) continue
      const well = kept.kind === 'own' && isWell(kept.breaker)
      const sooner = least === undefined || (well === least.well ? kept.used < least.used : well)
      if (sooner) least = { place, used: kept.used, well }
    }
    if (least === undefined) return
    if (owner === undefined) least.place.shared = undefined
    else least.place.owns.delete(owner)
    this.#leave(least.place, owner)
  }
}

function isWell({ state }: Breaker): boolean {
  return state.state === 'closed' && state.failures === 0
}

/** Leave for a call that has no circuit yet: one is made when the call says something about its backend. */
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
