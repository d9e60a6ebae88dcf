import { performance } from 'node:perf_hooks'
import { type Issue, type Json, ToolError } from '@gantry/contract'
import type { Backend } from './backends/backend.ts'
import type { GuardedCall, Passage, Safeguards, Waiting } from './pipeline/ports.ts'
import { backendKey } from './pipeline/registry.ts'
import type { Breaker, BreakersOptions, Permit } from './resilience/breaker.ts'
import { type BulkheadOptions, createBulkhead, type Release } from './resilience/bulkhead.ts'
import { isFault } from './resilience/circuit.ts'
import {
  type CircuitSummary,
  circuitKey,
  readCircuitKey,
  summarizeCircuits,
  type TenantState,
} from './resilience/circuit-summary.ts'
import { createRateLimit, type RateLimitOptions } from './resilience/rate-limit.ts'
import { createRetryBudget, type RetryBudget, type RetryBudgetOptions } from './resilience/retry.ts'
import { createTenantCircuits, type TenantCircuitEvent, type TenantCircuits } from './resilience/tenant-circuits.ts'
import { didYouMean } from './search/index.ts'

/** What stands before one backend. */
export interface BackendSafeguards {
  /** When a tool's circuit opens there; false for never. */
  readonly breaker?: Omit<BreakersOptions, 'onEvent' | 'outcome' | 'now' | 'random'> | false
  /** How many calls at a time; no limit when absent. */
  readonly bulkhead?: Omit<BulkheadOptions, 'name'>
  /** How many calls in a time; no limit when absent. */
  readonly rate?: Pick<RateLimitOptions, 'perSecond' | 'burst'>
  /** How much of the load may be repeats; false for no limit. */
  readonly retryBudget?: Omit<RetryBudgetOptions, 'now'> | false
}

export interface SafeguardOptions extends BackendSafeguards {
  /** By key, over the above: `{ 'http:github': { rate: { perSecond: 10, burst: 20 } } }`. */
  readonly backends?: { readonly [key: string]: BackendSafeguards }
  readonly trials?: AskForTrial
}

/**
 * Asks those who share a backend whether a circuit, by its key, may be tried here: 0 when it may, or else the milliseconds
 * for which it rests on. Only asked when a rest is over, while its call waits, so it should answer soon; when it rejects,
 * the circuit is tried.
 */
export type AskForTrial = (key: string) => Promise<number>

/**
 * The circuits of an executor. Each has a name, `tool @ backend`, with ` > origin` where the backend reaches several, and
 * under it the circuits of the tenants that used it, and a shared one while several of them rest. `circuitKey` makes the
 * key of one of these from the name and the tenant.
 */
export interface CircuitControl {
  list(): readonly CircuitSummary[]
  /** The circuits of tenants and the shared ones, each by its key. */
  states(): readonly TenantState[]
  /** Opens the circuit of a key because others did, or lets it rest for longer; one of a backend that is not here is left out. */
  hold(key: string, restMs: number, streak: number): void
  /** Closes the circuit of a key because a trial of others went well. */
  close(key: string): void
  /** Closes a circuit by its name, for all tenants or for one, on behalf of an operator; whether it was not closed. */
  reset(circuit: string, tenant?: string): boolean
  /** Their states as JSON, for a process that starts later. */
  snapshot(): Json
  /** Takes up what `snapshot` gave; CONFIG_INVALID when it is anything else. */
  restore(json: unknown): void
}

/** The guards of one backend. */
interface Guards {
  enter(call: GuardedCall, waiter: Waiting): Passage | Promise<Passage>
  readonly budget: RetryBudget | undefined
  readonly circuits: TenantCircuits | undefined
}

/** Programs over tools fail by the calls that they make, which have circuits of their own. */
const unguarded = 'program'
/** Functions of this process have a breaker; what limits the load on a service is for those who name them. */
const onlyBreaker = 'local'

/** Guards every backend; `backends.local` gives functions of this process more than a breaker. */
export function createSafeguards(
  options: SafeguardOptions,
  backends: readonly Backend[],
  onEvent: (event: TenantCircuitEvent) => void,
): Safeguards & { readonly circuits: CircuitControl; add(backend: Backend): void; remove(backend: Backend): void } {
  const { backends: own = {}, trials, ...common } = options
  const keys = backends.map(({ kind, name }) => backendKey(kind, name))
  refuseUnknown(Object.keys(options), [...safeguardKeys, 'backends', 'trials'], '/safeguards', 'is not an option')
  if (trials !== undefined && typeof trials !== 'function') throw refused('/safeguards/trials', 'must be a function')
  refuseUnknown(Object.keys(own), keys, '/safeguards/backends', 'is no backend')
  for (const [key, one] of Object.entries(own)) {
    refuseUnknown(Object.keys(one), safeguardKeys, `/safeguards/backends/${key}`, 'is not an option')
  }
  const { breaker } = common
  const lean: BackendSafeguards = { ...(breaker === undefined ? {} : { breaker }), retryBudget: false }
  const guards = new Map<Backend, Guards>()
  const add = (backend: Backend): void => {
    const key = backendKey(backend.kind, backend.name)
    const named = Object.hasOwn(own, key) ? own[key] : undefined
    if (backend.kind === unguarded && named === undefined) return
    const usual = backend.kind === onlyBreaker && named === undefined ? lean : common
    if (usual === lean && breaker === false) return
    guards.set(backend, createGuards(key, { ...usual, ...named }, onEvent, trials))
  }
  for (const backend of backends) add(backend)
  const circuits = (): TenantCircuits[] => [...guards.values()].flatMap((one) => one.circuits ?? [])
  const at = (circuit: string): TenantCircuits | undefined =>
    [...guards].find(([backend]) => isAt(circuit, backend))?.[1].circuits
  return {
    add,
    remove: (backend) => void guards.delete(backend),
    guards: (backend) => guards.has(backend),
    enter: (call, waiter) => guards.get(call.backend)?.enter(call, waiter) ?? freePassage,
    budget: (backend) => guards.get(backend)?.budget,
    circuits: {
      list: () => summarizeCircuits(circuits().flatMap((one) => one.list())),
      states: () => circuits().flatMap((one) => one.list()),
      hold(key, restMs, streak) {
        const { circuit, tenant } = readCircuitKey(key)
        at(circuit)?.hold(circuit, tenant, restMs, streak)
      },
      close(key) {
        const { circuit, tenant } = readCircuitKey(key)
        at(circuit)?.close(circuit, tenant)
      },
      reset: (circuit, tenant) => at(circuit)?.reset(circuit, tenant) ?? false,
      snapshot: () => circuits().flatMap((one) => one.snapshot()) as unknown as Json,
      restore: (json) => restoreCircuits(guards, json),
    },
  }
}

const freePassage: Passage = { succeed: () => undefined, fail: () => undefined }

/** Past the rate, then into a place, then through the circuit: a trial that waited for a place would be no trial. */
function createGuards(
  key: string,
  options: BackendSafeguards,
  onEvent: (event: TenantCircuitEvent) => void,
  trials: AskForTrial | undefined,
): Guards {
  const { breaker = {}, bulkhead, rate, retryBudget = {} } = options
  const circuits = breaker === false ? undefined : createTenantCircuits({ ...breaker, onEvent })
  const places = bulkhead === undefined ? undefined : createBulkhead({ ...bulkhead, name: key })
  const limit = rate === undefined ? undefined : createRateLimit({ ...rate, name: key })
  const names = new Map<string, string>()
  const paces = createPaces()
  const enter = (
    circuits: TenantCircuits,
    circuit: string,
    call: GuardedCall,
    release: Release | undefined,
  ): Passage => {
    const permit = entered(circuits, circuit, call.tenant, release)
    return new GuardedPassage(call.backend, permit, release, paces.of(circuit, call.tenant))
  }
  const pass = (call: GuardedCall, release: Release | undefined, waiter: Waiting): Passage | Promise<Passage> => {
    if (circuits === undefined || call.tool.entry.tool.breaker === false) {
      return new GuardedPassage(call.backend, undefined, release, undefined)
    }
    const circuit = circuitOf(names, call, key)
    const due = trials === undefined ? undefined : circuits.due(circuit, call.tenant)
    if (trials === undefined || due === undefined) return enter(circuits, circuit, call, release)
    return tried(trials, circuitKey(circuit, call.tenant), due).then(() => {
      giveBackUnwanted(release, waiter.signal)
      return enter(circuits, circuit, call, release)
    })
  }
  return {
    circuits,
    budget: retryBudget === false ? undefined : createRetryBudget(retryBudget),
    enter(call, waiter) {
      limit?.take()
      const place = places?.enter(waiter.signal, call.tenant)
      if (place === undefined || typeof place === 'function') return pass(call, place, waiter)
      return place.then((release) => {
        giveBackUnwanted(release, waiter.signal)
        return pass(call, release, waiter)
      })
    },
  }
}

/** A place that came when nobody waited any more goes back at once. */
function giveBackUnwanted(release: Release | undefined, signal: AbortSignal): void {
  if (!signal.aborted) return
  release?.()
  throw signal.reason
}

function entered(circuits: TenantCircuits, circuit: string, tenant: string, release: Release | undefined): Permit {
  try {
    return circuits.enter(circuit, tenant)
  } catch (error) {
    release?.()
    throw error
  }
}

/** Asks those who share a circuit whose rest is over; of many calls that ask here, one is the trial. */
async function tried(trials: AskForTrial, key: string, circuit: Breaker): Promise<void> {
  const waitMs = await askedFor(key, trials)
  // What was heard in the meantime is newer than the answer.
  if (waitMs > 0 && circuit.due) circuit.hold(waitMs, 0)
}

async function askedFor(key: string, trials: AskForTrial): Promise<number> {
  try {
    return await trials(key)
  } catch {
    return 0
  }
}

/** Tools whose circuits are named at one backend; a caller cannot make it grow, because tools are the host's. */
const mostNames = 10_000

/** The name of the circuit that a call goes through: its tool at its backend, and the origin where it has one. */
function circuitOf(names: Map<string, string>, { tool, backend, binding, args }: GuardedCall, key: string): string {
  const id = tool.entry.key
  let name = names.get(id)
  if (name === undefined) {
    if (names.size >= mostNames) names.clear()
    name = `${id} @ ${key}`
    names.set(id, name)
  }
  const origin = backend.origin?.(args, binding)
  return origin === undefined ? name : `${name} > ${origin}`
}

/** How long a circuit's calls of one tenant took where they were answered, lately. */
interface Pace {
  slowestMs: number
}

const mostPaces = 10_000

/** One pace for each tenant, because a slow call of one must not excuse the time-outs of another. */
function createPaces() {
  let paces = new Map<string, Map<string, Pace>>()
  let size = 0
  let last: { readonly circuit: string; readonly tenant: string; readonly pace: Pace } | undefined
  return {
    of(circuit: string, tenant: string): Pace {
      if (last?.circuit === circuit && last.tenant === tenant) return last.pace
      const known = paces.get(circuit)?.get(tenant)
      if (known !== undefined) {
        last = { circuit, tenant, pace: known }
        return known
      }
      if (size >= mostPaces) {
        paces = new Map()
        size = 0
      }
      const pace: Pace = { slowestMs: 0 }
      const tenants = paces.get(circuit) ?? new Map<string, Pace>()
      paces.set(circuit, tenants.set(tenant, pace))
      size += 1
      return pace
    },
  }
}

/** A class, because two functions made anew for every call of a local tool would cost it. */
class GuardedPassage implements Passage {
  readonly #backend: Backend
  readonly #permit: Permit | undefined
  readonly #release: Release | undefined
  readonly #pace: Pace | undefined
  readonly #start = performance.now()

  constructor(backend: Backend, permit: Permit | undefined, release: Release | undefined, pace: Pace | undefined) {
    this.#backend = backend
    this.#permit = permit
    this.#release = release
    this.#pace = pace
  }

  succeed(): void {
    const pace = this.#pace
    if (pace !== undefined) pace.slowestMs = Math.max(performance.now() - this.#start, pace.slowestMs * 0.95)
    this.#permit?.succeed()
    this.#release?.()
  }

  fail(failure: ToolError, until?: PromiseLike<unknown>): void {
    // A caller who waits for less time than the backend usually takes says nothing about the backend.
    const hasty = failure.code === 'TIMEOUT' && performance.now() - this.#start < 2 * (this.#pace?.slowestMs ?? 0)
    if (!hasty && (this.#backend.isFault ?? isFault)(failure)) this.#permit?.fault()
    else this.#permit?.leave()
    const release = this.#release
    if (release === undefined) return
    if (until === undefined) release()
    else until.then(release, release)
  }
}

/** Each circuit goes back to its backend; one of a backend that is not here any more is dropped. */
function restoreCircuits(guards: ReadonlyMap<Backend, Guards>, json: unknown): void {
  const rows: readonly unknown[] = Array.isArray(json) ? json : [json]
  for (const [backend, { circuits }] of guards) {
    circuits?.restore(rows.filter((row) => !isKeyed(row) || isAt(readCircuitKey(row.key).circuit, backend)))
  }
}

function isAt(circuit: string, { kind, name }: Backend): boolean {
  const at = ` @ ${backendKey(kind, name)}`
  return circuit.endsWith(at) || circuit.includes(`${at} > `)
}

function isKeyed(row: unknown): row is { readonly key: string } {
  return typeof row === 'object' && row !== null && typeof (row as { key?: unknown }).key === 'string'
}

const safeguardKeys = ['breaker', 'bulkhead', 'rate', 'retryBudget']

function refuseUnknown(named: readonly string[], known: readonly string[], at: string, what: string): void {
  const issues = named
    .filter((key) => !known.includes(key))
    .map((key) => ({ path: `${at}/${key}`, message: `${what}${didYouMean(key, known)}` }))
  const [first] = issues
  if (first !== undefined) throw refused(first.path, first.message, issues)
}

function refused(path: string, message: string, issues: readonly Issue[] = [{ path, message }]): ToolError {
  return new ToolError('CONFIG_INVALID', `${path} ${message}.`, { details: { issues } })
}
