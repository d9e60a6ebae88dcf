import { type Issue, type Json, ToolError } from '@gantry/contract'
import type { Backend } from './backends/backend.ts'
import { backendKey } from './pipeline/registry.ts'
import type { Passage, Safeguards } from './pipeline/safeguards.ts'
import type { Breaker } from './resilience/breaker.ts'
import { type BreakersOptions, createBreakers, type KeyedState } from './resilience/breakers.ts'
import { type BulkheadOptions, createBulkhead, type Release } from './resilience/bulkhead.ts'
import type { BreakerEvent } from './resilience/circuit.ts'
import { outcomeOf } from './resilience/faults.ts'
import { createRateLimit, type RateLimitOptions } from './resilience/rate-limit.ts'
import { createRetryBudget, type RetryBudget, type RetryBudgetOptions } from './resilience/retry-budget.ts'
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

/** The circuits of an executor, one for each tool at each backend. */
export interface CircuitControl {
  list(): readonly KeyedState[]
  /** Opens a circuit because others did, or lets it rest for longer; one of a backend that is not here is left out. */
  hold(key: string, restMs: number, streak: number): void
  /** Closes a circuit because a trial of others went well. */
  close(key: string): void
  /** Their states as JSON, for a process that starts later. */
  snapshot(): Json
  /** Takes up what `snapshot` gave; CONFIG_INVALID when it is anything else. */
  restore(json: unknown): void
}

/** The guards of one backend. */
interface Guards {
  enter(tool: string, signal: AbortSignal): Passage | Promise<Passage>
  readonly budget: RetryBudget | undefined
  readonly breakers: ReturnType<typeof createBreakers> | undefined
}

/** Local functions and programs over tools fail by themselves, and not as a service does. */
const unguarded: readonly string[] = ['local', 'program']

/** Guards every backend but those of this process alone, which are guarded when `backends.local` says so. */
export function createSafeguards(
  options: SafeguardOptions,
  backends: readonly Backend[],
  onEvent: (event: BreakerEvent) => void,
): Safeguards & { readonly circuits: CircuitControl } {
  const { backends: own = {}, trials, ...common } = options
  const keys = backends.map(({ kind, name }) => backendKey(kind, name))
  refuseUnknown(Object.keys(options), [...safeguardKeys, 'backends', 'trials'], '/safeguards', 'is not an option')
  if (trials !== undefined && typeof trials !== 'function') throw refused('/safeguards/trials', 'must be a function')
  refuseUnknown(Object.keys(own), keys, '/safeguards/backends', 'is no backend')
  for (const [key, one] of Object.entries(own)) {
    refuseUnknown(Object.keys(one), safeguardKeys, `/safeguards/backends/${key}`, 'is not an option')
  }
  const guards = new Map<Backend, Guards>()
  for (const backend of backends) {
    const key = backendKey(backend.kind, backend.name)
    const named = Object.hasOwn(own, key) ? own[key] : undefined
    if (!unguarded.includes(backend.kind) || named !== undefined) {
      guards.set(backend, createGuards(key, { ...common, ...named }, onEvent, trials))
    }
  }
  const breakers = (): NonNullable<Guards['breakers']>[] => [...guards.values()].flatMap((one) => one.breakers ?? [])
  const at = (key: string): Guards['breakers'] => [...guards].find(([backend]) => isAt(key, backend))?.[1].breakers
  return {
    guards: (backend) => guards.size > 0 && guards.has(backend),
    enter: (tool, backend, signal) => guards.get(backend)?.enter(tool, signal) ?? freePassage,
    budget: (backend) => guards.get(backend)?.budget,
    circuits: {
      list: () => breakers().flatMap((one) => one.list()),
      hold: (key, restMs, streak) => at(key)?.get(key).hold(restMs, streak),
      close: (key) => at(key)?.close(key),
      snapshot: () => breakers().flatMap((one) => one.snapshot()) as unknown as Json,
      restore: (json) => restoreCircuits(guards, json),
    },
  }
}

const freePassage: Passage = { succeed: () => undefined, fail: () => undefined }

/** Past the rate, then into a place, then through the circuit: a trial that waited for a place would be no trial. */
function createGuards(
  key: string,
  options: BackendSafeguards,
  onEvent: (event: BreakerEvent) => void,
  trials: AskForTrial | undefined,
): Guards {
  const { breaker = {}, bulkhead, rate, retryBudget = {} } = options
  const breakers = breaker === false ? undefined : createBreakers({ ...breaker, onEvent })
  const places = bulkhead === undefined ? undefined : createBulkhead({ ...bulkhead, name: key })
  const limit = rate === undefined ? undefined : createRateLimit({ ...rate, name: key })
  const paces = new Map<string, Pace>()
  const pass = (
    circuit: Breaker | undefined,
    release: Release | undefined,
    pace: Pace,
    signal: AbortSignal,
  ): Passage | Promise<Passage> =>
    trials !== undefined && circuit?.due === true
      ? passTried(trials, circuit, release, pace, signal)
      : passage(circuit, release, pace)
  return {
    breakers,
    budget: retryBudget === false ? undefined : createRetryBudget(retryBudget),
    enter(tool, signal) {
      limit?.take()
      const pace = paceOf(paces, tool, key)
      const circuit = breakers?.get(pace.circuit)
      const place = places?.enter(signal)
      if (place === undefined || typeof place === 'function') return pass(circuit, place, pace, signal)
      return place.then((release) => {
        giveBackUnwanted(release, signal)
        return pass(circuit, release, pace, signal)
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

/** Goes through a circuit whose rest is over if those who share it let it; of many that ask here, one is the trial. */
async function passTried(
  trials: AskForTrial,
  circuit: Breaker,
  release: Release | undefined,
  pace: Pace,
  signal: AbortSignal,
): Promise<Passage> {
  const waitMs = await askedFor(circuit.name, trials)
  giveBackUnwanted(release, signal)
  // What was heard in the meantime is newer than the answer.
  if (waitMs > 0 && circuit.due) circuit.hold(waitMs, 0)
  return passage(circuit, release, pace)
}

async function askedFor(key: string, trials: AskForTrial): Promise<number> {
  try {
    return await trials(key)
  } catch {
    return 0
  }
}

/** How long a tool took where it answered, lately. */
interface Pace {
  /** The name of its circuit, put together once. */
  readonly circuit: string
  slowestMs: number
}

/** Tools whose pace is kept at one backend; a caller cannot make it grow, because tools are the host's. */
const mostPaces = 10_000

function paceOf(paces: Map<string, Pace>, tool: string, key: string): Pace {
  const known = paces.get(tool)
  if (known !== undefined) return known
  if (paces.size >= mostPaces) paces.clear()
  const pace = { circuit: `${tool} @ ${key}`, slowestMs: 0 }
  paces.set(tool, pace)
  return pace
}

function passage(circuit: Breaker | undefined, release: Release | undefined, pace: Pace): Passage {
  try {
    const permit = circuit?.enter()
    const start = performance.now()
    return {
      succeed() {
        pace.slowestMs = Math.max(performance.now() - start, pace.slowestMs * 0.95)
        permit?.succeed()
        release?.()
      },
      fail(failure, until) {
        // A caller who waits for less time than the backend usually takes says nothing about the backend.
        const hasty = failure.code === 'TIMEOUT' && performance.now() - start < 2 * pace.slowestMs
        if (!hasty && outcomeOf(failure) === 'fault') permit?.fault()
        else permit?.leave()
        if (release === undefined) return
        if (until === undefined) release()
        else until.then(release, release)
      },
    }
  } catch (error) {
    release?.()
    throw error
  }
}

/** Each circuit goes back to its backend; one of a backend that is not here any more is dropped. */
function restoreCircuits(guards: ReadonlyMap<Backend, Guards>, json: unknown): void {
  const rows: readonly unknown[] = Array.isArray(json) ? json : [json]
  for (const [backend, { breakers }] of guards) {
    breakers?.restore(rows.filter((row) => !isKeyed(row) || isAt(row.key, backend)))
  }
}

function isAt(circuit: string, { kind, name }: Backend): boolean {
  return circuit.endsWith(` @ ${backendKey(kind, name)}`)
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
