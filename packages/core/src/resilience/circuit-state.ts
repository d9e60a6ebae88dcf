import { isObject, isText } from '@gantry/contract/internal/json'
import { number, oneOf, whole } from '../options/option.ts'
import { checkOptions, optionsCheck, refusal, refuse } from '../options/options.ts'
import type { BreakerState } from './circuit.ts'

/** The circuit of one tenant, or, without a tenant, the shared circuit. */
export type TenantState = BreakerState & {
  /** The output of `circuitKey`. */
  readonly key: string
  /** The name of the circuit: a tool at a backend, or at one origin behind it. */
  readonly circuit: string
  readonly tenant?: string
}

/** A circuit by name, with the circuits of its tenants. */
export type CircuitSummary = BreakerState & {
  /** The name. */
  readonly key: string
  readonly tenants: readonly (BreakerState & { readonly tenant: string })[]
}

/**
 * Groups circuits by name. The state is that of the shared circuit; when that is not open, it is the state of the only
 * tenant, or `closed` when there are several tenants.
 */
export function summarizeCircuits(states: readonly TenantState[]): CircuitSummary[] {
  const names = new Map<string, TenantState[]>()
  for (const state of states.map(inMilliseconds)) {
    const known = names.get(state.circuit)
    if (known === undefined) names.set(state.circuit, [state])
    else known.push(state)
  }
  return [...names].map(([key, all]) => {
    const shared = all.find(({ tenant }) => tenant === undefined)
    const tenants = all.flatMap(({ key: _key, circuit: _circuit, tenant, ...state }) =>
      tenant === undefined ? [] : [{ ...state, tenant }],
    )
    return { ...togetherOf(shared, tenants), key, tenants }
  })
}

/** Times of the monotonic clock have fractions. */
function inMilliseconds(state: TenantState): TenantState {
  const since = Math.floor(state.since)
  return state.state === 'open' ? { ...state, since, retryAt: Math.ceil(state.retryAt) } : { ...state, since }
}

function togetherOf(shared: TenantState | undefined, tenants: CircuitSummary['tenants']): BreakerState {
  const [only] = tenants
  const sum = (of: (one: BreakerState) => number): number => tenants.reduce((total, one) => total + of(one), 0)
  const counts = { calls: sum(({ calls }) => calls), failures: sum(({ failures }) => failures) }
  if (shared !== undefined) {
    const { key: _key, circuit: _circuit, ...state } = shared
    return { ...state, ...counts }
  }
  if (only !== undefined && tenants.length === 1) {
    const { tenant: _tenant, ...state } = only
    return state
  }
  const since = Math.min(...tenants.map((one) => one.since))
  return { state: 'closed', since, openMs: Math.max(...tenants.map((one) => one.openMs)), ...counts }
}

/** The key under which processes share a circuit. */
export function circuitKey(circuit: string, tenant: string | undefined): string {
  return tenant === undefined ? circuit : `${circuit} for ${JSON.stringify(tenant)}`
}

/** Parses the output of `circuitKey`. */
export function readCircuitKey(key: string): { readonly circuit: string; readonly tenant?: string } {
  const end = key.indexOf(' for "')
  if (end < 0) return { circuit: key }
  try {
    const tenant: unknown = JSON.parse(key.slice(end + 5))
    if (typeof tenant === 'string') return { circuit: key.slice(0, end), tenant }
  } catch {
    // Any other text is the name of a circuit.
  }
  return { circuit: key }
}

interface StoredCounts {
  readonly since: number
  readonly streak: number
  readonly openMs: number
  readonly window: readonly Slice[]
}

/** The persisted state of a breaker. Times are milliseconds since 1970. */
export type BreakerJson =
  | (StoredCounts & { readonly state: 'closed' })
  | (StoredCounts & { readonly state: 'open'; readonly retryAt: number })

/** More calls than a process makes in a window; higher counts would keep a circuit closed permanently. */
const mostCalls = 1_000_000_000

/** One time slice: its start, the counted calls, and the failures among them. */
export type Slice = readonly [start: number, calls: number, failures: number]

/** Slices of a window; the window drops whole slices. */
export const sliceCount = 10

const slice = {
  type: 'array',
  prefixItems: [number(0), whole(0, mostCalls), whole(0, mostCalls)],
  items: false,
  minItems: 3,
  description: '[start, calls, failures]',
}

const members = {
  state: oneOf('closed', 'open'),
  since: number(0),
  streak: whole(0, mostCalls),
  openMs: number(0),
  window: { type: 'array', maxItems: sliceCount, items: slice, description: `a list of at most ${sliceCount} slices` },
}
const required = ['state', 'since', 'streak', 'openMs', 'window'] as const
const closedCheck = optionsCheck<BreakerJson & { readonly state: 'closed' }>({ members, required })
const openCheck = optionsCheck<BreakerJson & { readonly state: 'open' }>({
  members: { ...members, retryAt: number(0) },
  required: [...required, 'retryAt'],
})

/** Parses a persisted state into a copy; throws CONFIG_INVALID for anything else. */
export function readBreaker(json: unknown): BreakerJson {
  if (isObject(json) && json.state === 'open') checkOptions('breaker state', openCheck, json)
  else checkOptions('breaker state', closedCheck, json)
  const stored: BreakerJson = structuredClone(json)
  const wrong = stored.window.findIndex(([start, calls, failures], index) => {
    const before = stored.window[index - 1]
    return failures > calls || (before !== undefined && start <= before[0])
  })
  const message = 'must start after the previous slice, with failures ≤ calls'
  refuse('breaker state', wrong === -1 ? [] : [{ path: `/window/${wrong}`, message }])
  return stored
}

/** Parses the rows of a snapshot; throws CONFIG_INVALID for anything else. */
export function readRows(json: unknown, most: number): { readonly key: string; readonly breaker: unknown }[] {
  if (!Array.isArray(json) || json.length > most) {
    throw refusal('breaker snapshot', [{ path: '', message: `must be a list of at most ${most} breakers` }])
  }
  return json.map((row: unknown, index) => {
    const { key, breaker }: { readonly [key: string]: unknown } = isObject(row) ? row : {}
    if (isText(key)) return { key, breaker }
    throw refusal('breaker snapshot', [{ path: `/${index}/key`, message: 'must be a string' }])
  })
}
