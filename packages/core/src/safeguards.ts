import { performance } from 'node:perf_hooks'
import type { Json, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Backend } from './backends/backend.ts'
import { callback, either, type Member, mapOf, part, whole } from './options/option.ts'
import { optionsCheck, refuse, unknownMembers } from './options/options.ts'
import type { GuardedCall, Passage, Safeguards, Waiting } from './pipeline/ports.ts'
import { backendKey } from './pipeline/resolve.ts'
import { type Breaker, type BreakersOptions, circuitMembers, type Permit } from './resilience/breaker.ts'
import { type BulkheadOptions, bulkheadMembers, createBulkhead, type Release } from './resilience/bulkhead.ts'
import { isFault } from './resilience/circuit.ts'
import {
  type CircuitSummary,
  circuitKey,
  readCircuitKey,
  summarizeCircuits,
  type TenantState,
} from './resilience/circuit-state.ts'
import { createRateLimit, type RateLimitOptions, rateMembers } from './resilience/rate-limit.ts'
import { createRetryBudget, type RetryBudget, type RetryBudgetOptions, retryBudgetMembers } from './resilience/retry.ts'
import { createTenantCircuits, type TenantCircuitEvent, type TenantCircuits } from './resilience/tenant-circuits.ts'

/** The safeguards of one backend. */
export interface BackendSafeguards {
  /** When a tool's circuit opens; false for never. */
  readonly breaker?: Omit<BreakersOptions, 'onEvent' | 'outcome' | 'now' | 'random'> | false
  /** The concurrency limit; none when absent. */
  readonly bulkhead?: Omit<BulkheadOptions, 'name'>
  /** The rate limit; none when absent. */
  readonly rate?: Pick<RateLimitOptions, 'perSecond' | 'burst'>
  /** The share of the load that may be retries; false for no limit. */
  readonly retryBudget?: Omit<RetryBudgetOptions, 'now'> | false
}

export interface SafeguardOptions extends BackendSafeguards {
  /** Overrides by backend key: `{ 'http:github': { rate: { perSecond: 10, burst: 20 } } }`. */
  readonly backends?: { readonly [key: string]: BackendSafeguards }
  readonly trials?: AskForTrial
}

/**
 * Requests a trial of a circuit, by its key, from the processes that share the backend. Resolves with 0 when this process
 * may try it, or with the milliseconds for which it stays open. Called when the open time has passed, while a call waits,
 * so it should answer soon; a rejection allows the trial.
 */
export type AskForTrial = (key: string) => Promise<number>

/**
 * The circuits of an executor. Each has a name, `tool @ backend`, with ` > origin` for a backend with several origins. A
 * name has one circuit per tenant that used it, and a shared one while those of several tenants are open. `circuitKey` makes
 * the key of one of these from the name and the tenant.
 */
export interface CircuitControl {
  list(): readonly CircuitSummary[]
  /** The circuits of tenants and the shared ones, each by its key. */
  states(): readonly TenantState[]
  /** Opens the circuit of a key, or extends its open time, because another process did. Ignores unknown backends. */
  hold(key: string, restMs: number, streak: number): void
  /** Closes the circuit of a key because the trial of another process succeeded. */
  close(key: string): void
  /** Closes a circuit by its name, for all tenants or for one, on behalf of an operator. Returns whether it was not closed. */
  reset(circuit: string, tenant?: string): boolean
  /** The states as JSON, for a process that starts later. */
  snapshot(): Json
  /** Restores a `snapshot`. Throws CONFIG_INVALID for any other value. */
  restore(json: unknown): void
}

type Breaking = Exclude<BackendSafeguards['breaker'], false | undefined>
type Budgeting = Exclude<BackendSafeguards['retryBudget'], false | undefined>
const none = part((value) => value === false, 'false', { const: false })
const backendMembers: { readonly [Key in keyof Required<BackendSafeguards>]: Member } = {
  breaker: either(none, optionsCheck<Breaking>({ members: { ...circuitMembers, most: whole(1) } })),
  bulkhead: optionsCheck<NonNullable<BackendSafeguards['bulkhead']>>({
    members: bulkheadMembers,
    required: ['concurrency'],
  }),
  rate: optionsCheck<NonNullable<BackendSafeguards['rate']>>({
    members: rateMembers,
    required: ['perSecond', 'burst'],
  }),
  retryBudget: either(none, optionsCheck<Budgeting>({ members: retryBudgetMembers })),
}
/** The check of the safeguards of all backends, without their names. */
export const safeguardsCheck = optionsCheck<SafeguardOptions>({
  members: {
    ...backendMembers,
    backends: mapOf(optionsCheck<BackendSafeguards>({ members: backendMembers })),
    trials: callback,
  },
})

/** The safeguards of one backend, in use. */
interface Guards {
  enter(call: GuardedCall, waiter: Waiting): Passage | Promise<Passage>
  readonly budget: RetryBudget | undefined
  readonly circuits: TenantCircuits | undefined
}

/** Programs over tools have no breaker: their inner calls have circuits of their own. */
const unguarded = 'program'
/** Local functions have a breaker. Rate and concurrency limits apply only if they are configured for `local`. */
const onlyBreaker = 'local'

/** Creates the safeguards of every backend. */
export function createSafeguards(
  options: SafeguardOptions,
  backends: readonly Backend[],
  onEvent: (event: TenantCircuitEvent) => void,
): Safeguards & { readonly circuits: CircuitControl; add(backend: Backend): void; remove(backend: Backend): void } {
  const { backends: own = {}, trials, ...common } = options
  const keys = backends.map(({ kind, name }) => backendKey(kind, name))
  refuse('options of safeguards', [
    ...safeguardsCheck.issues(options, '/safeguards'),
    ...(isObject(own) ? unknownMembers(own, keys, '/safeguards/backends', 'a backend') : []),
  ])
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

/** Checks the rate, then takes a slot, then asks the circuit: a trial that waited for a slot would delay its result. */
function createGuards(
  key: string,
  options: BackendSafeguards,
  onEvent: (event: TenantCircuitEvent) => void,
  trials: AskForTrial | undefined,
): Guards {
  const { breaker = {}, bulkhead, rate, retryBudget = {} } = options
  const circuits = breaker === false ? undefined : createTenantCircuits({ ...breaker, onEvent })
  const slots = bulkhead === undefined ? undefined : createBulkhead({ ...bulkhead, name: key })
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
      const slot = slots?.enter(waiter.signal, call.tenant)
      if (slot === undefined || typeof slot === 'function') return pass(call, slot, waiter)
      return slot.then((release) => {
        giveBackUnwanted(release, waiter.signal)
        return pass(call, release, waiter)
      })
    },
  }
}

/** A slot that was granted after its call was cancelled is released at once. */
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

/** Requests a trial from the processes that share a circuit. Of the waiting calls of this process, one becomes the trial. */
async function tried(trials: AskForTrial, key: string, circuit: Breaker): Promise<void> {
  const waitMs = await askedFor(key, trials)
  // A notification received during the request is newer than its answer.
  if (waitMs > 0 && circuit.due) circuit.hold(waitMs, 0)
}

async function askedFor(key: string, trials: AskForTrial): Promise<number> {
  try {
    return await trials(key)
  } catch {
    return 0
  }
}

/** Circuit names by tool at one backend. Callers cannot make it grow, because the host registers tools. */
const mostNames = 10_000

/** The name of the circuit of a call: its tool at its backend, with the origin if it has one. */
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

/** The recent duration of answered calls of one tenant at a circuit. */
interface Pace {
  slowestMs: number
}

const mostPaces = 10_000

/** One pace per tenant, because a slow call of one tenant must not excuse the timeouts of another. */
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

/** A class, because two closures per call would slow down local tools. */
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
    // A timeout shorter than the usual duration of the backend does not count against it.
    const hasty = failure.code === 'TIMEOUT' && performance.now() - this.#start < 2 * (this.#pace?.slowestMs ?? 0)
    if (!hasty && (this.#backend.isFault ?? isFault)(failure)) this.#permit?.fault()
    else this.#permit?.leave()
    const release = this.#release
    if (release === undefined) return
    if (until === undefined) release()
    else until.then(release, release)
  }
}

/** Restores each circuit at its backend; those of unknown backends are dropped. */
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
  return isObject(row) && isText(row.key)
}
