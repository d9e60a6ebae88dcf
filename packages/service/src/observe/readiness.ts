import type { DependencyView, UnrecordedView } from '@gantry/contract'
import type { Bus } from './bus.ts'
import type { DependencyHealth } from './dependency-health.ts'

/** Whether the parts work, from what they did last rather than from what they say. */
export interface Readiness {
  readonly ready: boolean
  /** One sentence for each part that is not. */
  readonly problems: readonly string[]
  /** What its owner should see to although it works. */
  readonly notes?: readonly string[]
}

/** How far the process is: starting → ready → draining. */
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
  readonly health: Pick<DependencyHealth, 'fresh'>
  readonly recorder: { readonly spooled: number }
  /** Outcomes that neither the database nor the spool takes; undefined in a process that executes no calls. */
  readonly worker: { readonly unrecorded: readonly UnrecordedView[] } | undefined
}

/** A problem names so many calls; the view for operators has all of them. */
const mostNamed = 20

/** Answers what keeps this process from its work, from probes that are seconds old at most. */
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
    if (lifecycle.state === 'starting') problems.push('It has not begun to take calls.')
    if (lifecycle.state === 'draining') problems.push('It is about to stop.')
    const down = (await health.fresh()).filter(({ up }) => !up)
    // While the database takes outcomes, the spool is not needed.
    const needed = down.some(isDatabase) ? down : down.filter(({ dependency }) => dependency !== 'spool')
    problems.push(...needed.map(downProblem))
    if (recorder.spooled > 0) problems.push(`${recorder.spooled} outcomes wait in the spool for the database.`)
    const held = worker?.unrecorded ?? []
    if (held.length > 0) problems.push(heldProblem(held))
    const notes = down.filter((one) => !needed.includes(one)).map(downProblem)
    // It works on with the one before, so that this is no reason to send it no calls.
    if (refused) notes.push('The configuration that was read last is wrong and not used; the log says why.')
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
  return `${held.length} outcomes are held in memory, because neither the database nor the spool takes them: ${ids.join(', ')}${more}.`
}
