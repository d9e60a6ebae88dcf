import type { Readiness } from '../http/service.ts'
import type { Bus } from '../stores/bus.ts'
import type { HeldOutcome } from '../worker/held-outcomes.ts'

/** Says whether the service does its work, from what it did last: answers of the database, not promises. */
export interface Watch {
  readonly state: 'starting' | 'ready' | 'draining'
  change(state: 'ready' | 'draining'): void
  /** Asks the database now, and says what is wrong. */
  check(): Promise<Readiness>
}

export interface WatchOptions {
  readonly bus: Bus
  /** Resolves when the database answers. */
  readonly ask: () => Promise<unknown>
  readonly spooled: () => number
  /** Outcomes that neither the database nor the spool takes. */
  readonly unrecorded: () => readonly HeldOutcome[]
}

/** A problem names so many calls; the view for operators has all of them. */
const mostNamed = 20

export function createWatch({ bus, ask, spooled, unrecorded }: WatchOptions): Watch {
  let state: Watch['state'] = 'starting'
  let down: string | undefined
  bus.on('store:down', ({ reason }) => {
    down = reason
  })
  bus.on('store:up', () => {
    down = undefined
  })
  let refused = false
  bus.on('config:refused', () => {
    refused = true
  })
  bus.on('config:read', () => {
    refused = false
  })
  const away = new Set<string>()
  bus.on('broker:down', ({ transport }) => away.add(transport))
  bus.on('broker:up', ({ transport }) => away.delete(transport))
  return {
    get state() {
      return state
    },
    change(next) {
      state = next
      bus.emit('worker:changed', { state: next })
    },
    async check() {
      const problems: string[] = []
      if (state === 'starting') problems.push('It has not begun to take calls.')
      if (state === 'draining') problems.push('It is about to stop.')
      if (down !== undefined) problems.push('The database is away, or takes nothing.')
      else await ask().catch(() => problems.push('The database does not answer.'))
      if (spooled() > 0) problems.push(`${spooled()} outcomes wait in the spool for the database.`)
      const held = unrecorded()
      if (held.length > 0) problems.push(heldProblem(held))
      for (const transport of away) problems.push(`The broker ${transport} is away.`)
      // It works on with the one before, so that this is no reason to send it no calls.
      const notes = refused ? ['The configuration that was read last is wrong and not used; the log says why.'] : []
      return { ready: problems.length === 0, problems, notes }
    },
  }
}

function heldProblem(held: readonly HeldOutcome[]): string {
  const ids = held.slice(0, mostNamed).map(({ callId }) => callId)
  const more = held.length > ids.length ? ` and ${held.length - ids.length} more` : ''
  return `${held.length} outcomes are held in memory, because neither the database nor the spool takes them: ${ids.join(', ')}${more}.`
}
