import type { BreakerState } from './circuit.ts'

/** The circuit of one tenant, or, without a tenant, the one that all of them share. */
export type TenantState = BreakerState & {
  /** As `circuitKey` writes it. */
  readonly key: string
  /** The name: a tool at a backend, or at one origin behind it. */
  readonly circuit: string
  readonly tenant?: string
}

/** A circuit by its name, and what each tenant sees of it. */
export type CircuitSummary = BreakerState & {
  /** The name. */
  readonly key: string
  readonly tenants: readonly (BreakerState & { readonly tenant: string })[]
}

/**
 * Puts together what there is under each name. The state is that of the shared circuit; where none is open, it is that of
 * the only tenant, or `closed` when there are several.
 */
export function summarizeCircuits(states: readonly TenantState[]): CircuitSummary[] {
  const names = new Map<string, TenantState[]>()
  for (const state of states) {
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

/** Reads what `circuitKey` wrote. */
export function readCircuitKey(key: string): { readonly circuit: string; readonly tenant?: string } {
  const end = key.indexOf(' for "')
  if (end < 0) return { circuit: key }
  try {
    const tenant: unknown = JSON.parse(key.slice(end + 5))
    if (typeof tenant === 'string') return { circuit: key.slice(0, end), tenant }
  } catch {
    // A key that was written by something else is the name of a circuit.
  }
  return { circuit: key }
}
