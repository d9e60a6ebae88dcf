import type { DependencyView, UnrecordedView } from '@gantry/contract'
import type { Bus } from './bus.ts'
import type { DependencyHealth } from './dependency-health.ts'

/** Readiness of the process, derived from the last operations and probes of its components. */
export interface Readiness {
  readonly ready: boolean
  /** One sentence for each component that is not ready. */
  readonly problems: readonly string[]
  /** Conditions that need attention but do not prevent readiness. */
  readonly notes?: readonly string[]
}

/** State of the process: starting → ready → draining. */
export interface Lifecycle {
  readonly state: 'starting' | 'ready' | 'draining'
  change(state: 'ready' | 'draining'): void
}

export function createLifecycle(bus: Bus): Lifecycle {
  let state: Lifecycle['state'] = 'starting'
  return {
    get state() {
      return state
    },
    change(next) {
      state = next
      bus.emit('worker:changed', { state: next })
    },
  }
}

export interface ReadinessOptions {
  readonly bus: Bus
  readonly lifecycle: Pick<Lifecycle, 'state'>
  readonly health: Pick<DependencyHealth, 'current'>
  readonly recorder: { readonly spooled: number }
  /** Outcomes that neither the database nor the spool accepts; undefined in a process without the role worker. */
  readonly worker: { readonly unrecorded: readonly UnrecordedView[] } | undefined
}

/** Limit of call ids in a problem; the view for operators lists all. */
const mostNamed = 20

/** Reports readiness from the last probes, without waiting for a dependency. */
export function createReadiness(options: ReadinessOptions): () => Promise<Readiness> {
  const { bus, lifecycle, health, recorder, worker } = options
  let refused = false
  bus.on('config:refused', () => {
    refused = true
  })
  bus.on('config:read', () => {
    refused = false
  })
  return async () => {
    const problems: string[] = []
    if (lifecycle.state === 'starting') problems.push('The process is starting and does not accept calls yet.')
    if (lifecycle.state === 'draining') problems.push('The process is draining and accepts no more calls.')
    const down = health.current().filter(({ up }) => !up)
    // While the database accepts outcomes, the spool is not needed.
    const needed = down.some(isDatabase) ? down : down.filter(({ dependency }) => dependency !== 'spool')
    problems.push(...needed.map(downProblem))
    if (recorder.spooled > 0) problems.push(`${recorder.spooled} outcomes wait in the spool for the database.`)
    const held = worker?.unrecorded ?? []
    if (held.length > 0) problems.push(heldProblem(held))
    const notes = down.filter((one) => !needed.includes(one)).map(downProblem)
    // The previous configuration stays in use, so the process remains ready.
    if (refused) notes.push('The configuration that was read last is invalid and not used; see the log for its issues.')
    return { ready: problems.length === 0, problems, notes }
  }
}

function isDatabase({ dependency }: DependencyView): boolean {
  return dependency === 'database'
}

function downProblem({ dependency, since, reason }: DependencyView): string {
  return `Unavailable since ${since}: ${dependency} (${reason}).`
}

function heldProblem(held: readonly UnrecordedView[]): string {
  const ids = held.slice(0, mostNamed).map(({ callId }) => callId)
  const more = held.length > ids.length ? ` and ${held.length - ids.length} more` : ''
  return `${held.length} outcomes are held in memory, because neither the database nor the spool accepts them: ${ids.join(', ')}${more}.`
}
