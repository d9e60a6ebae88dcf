import { ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import { type BatchOptions, createBatch } from '../../storage/batch.ts'
import type { CallStore, Ending, StoredReport } from '../../storage/calls/call-store.ts'
import type { Spool } from './spool.ts'

/** How an outcome was recorded. */
export type Recorded =
  /** It is the call's one outcome. */
  | 'accepted'
  /** Somebody else holds the call: this outcome does not count. */
  | 'refused'
  /** It waits on disk for the database to come back. */
  | 'spooled'
  /** Of a call that the database may have lost there is no outcome; if it has it still, it is run again. */
  | 'left'

/**
 * Makes outcomes durable.
 * - Concurrency: any number at once; they are committed in batches.
 * - Errors: rejects only when neither the database nor the disk takes the outcome; then the lease runs out.
 */
export interface Recorder {
  finish(ending: Ending): Promise<Recorded>
  /** Hands over what waits on disk; rejects as the store does. */
  drain(): Promise<void>
  readonly spooled: number
}

export interface RecorderOptions {
  readonly store: CallStore
  /** Stores what a call reported, before its ending; without it that is left out. */
  readonly append?: (events: readonly StoredReport[]) => Promise<void>
  readonly spool: Spool
  readonly bus: Bus
  readonly batch?: BatchOptions
}

/** There are never more: calls are sent ahead in small numbers, and not while answers are long in coming. */
const mostBehind = 1_000

export function createRecorder(options: RecorderOptions): Recorder {
  const { store, append, spool, bus, batch: how = { atOnce: 2 } } = options
  let draining: Promise<void> = Promise.resolve()
  /** One at a time touches the spool, so that order and file hold. */
  const exclusively = (work: () => Promise<void>): Promise<void> => {
    const next = draining.then(work, work)
    draining = next.catch(() => undefined)
    return next
  }
  const reported = async <T>(operation: string, dependency: string, work: () => Promise<T>): Promise<T> => {
    try {
      const done = await work()
      bus.emit('dependency:worked', { dependency, operation })
      return done
    } catch (error) {
      if (isUnavailable(error)) bus.emit('dependency:failed', { dependency, operation, reason: error.message })
      throw error
    }
  }
  /** Events that the database can never take must not keep an outcome from it. */
  const storeEvents = async (events: readonly StoredReport[]): Promise<void> => {
    try {
      await append?.(events)
    } catch (error) {
      if (isUnavailable(error)) throw error
      bus.emit('upkeep:failed', { what: 'events', reason: String(error) })
    }
  }
  const commit = async (endings: readonly Ending[]): Promise<readonly Recorded[]> => {
    // The store answers by call, so two outcomes of one call, an old holder's and a new one's, go one after the other.
    const seen = new Set<string>()
    const twice = endings.findIndex(({ callId }) => seen.size === seen.add(callId).size)
    if (twice > 0) return [...(await commit(endings.slice(0, twice))), ...(await commit(endings.slice(twice)))]
    const events = endings.flatMap((ending) => ending.events ?? [])
    if (events.length > 0) await storeEvents(events)
    const accepted = new Set(await reported('record', 'database', () => finishOnce(store, endings)))
    return endings.map((ending) => {
      if (accepted.has(ending.callId)) return 'accepted'
      bus.emit('fence:refused', { callId: ending.callId, fence: ending.fence })
      return 'refused'
    })
  }
  const keep = async (endings: readonly Ending[]): Promise<readonly Recorded[]> => {
    const lasting = endings.filter(({ unflushed }) => unflushed !== true)
    if (lasting.length > 0) {
      await reported('add', 'spool', () => exclusively(() => spool.add(lasting)))
      bus.emit('spool:changed', { depth: spool.depth })
    }
    return endings.map(({ unflushed }) => (unflushed === true ? 'left' : 'spooled'))
  }
  const record = async (endings: readonly Ending[]): Promise<readonly (Recorded | { readonly failure: unknown })[]> => {
    // What waits on disk is older: nothing overtakes it while the database is away.
    if (spool.depth > 0) return keep(endings)
    try {
      return await commit(endings)
    } catch (error) {
      if (isUnavailable(error)) return keep(endings)
      if (endings.length === 1) return [{ failure: error }]
      // One outcome that the database cannot take must not take the others with it.
      return (await Promise.all(endings.map((ending) => record([ending])))).flat()
    }
  }
  const batch = createBatch(record, how)
  /** What follows its call on its way waits for that alone, and keeps nobody else waiting. */
  const behind = createBatch(record, { ...how, atOnce: mostBehind })
  return {
    async finish(ending) {
      const isBehind = store.entering?.(ending.callId) !== undefined
      const recorded = await (isBehind ? behind : batch).add(ending)
      if (typeof recorded === 'object') throw recorded.failure
      return recorded
    },
    drain: () =>
      exclusively(async () => {
        // A spool that workers share may hold what another one left.
        let handed = 0
        await spool.drain(async (endings) => {
          // What lay on disk may say of its call what it likes: the store looks for itself.
          await commit(endings.map(({ plain: _, ...ending }) => ending))
          handed += endings.length
        })
        if (handed > 0) bus.emit('spool:changed', { depth: spool.depth })
      }),
    get spooled() {
      return spool.depth
    },
  }
}

/** Commits, and looks before it does so again when the answer to the commit was lost on the way. */
async function finishOnce(store: CallStore, endings: readonly Ending[]): Promise<readonly string[]> {
  try {
    return await store.finish(endings)
  } catch (error) {
    if (!isUnavailable(error) || error.details?.outcome !== 'unknown') throw error
    const done = new Set(await store.outcomes(endings))
    const rest = endings.filter(({ callId }) => !done.has(callId))
    if (rest.length === 0) return [...done]
    const accepted = await store.finish(rest)
    const refused = rest.filter(({ callId }) => !accepted.includes(callId))
    // The first commit may have come through only now, and then it is what refused the second.
    return [...done, ...accepted, ...(refused.length === 0 ? [] : await store.outcomes(refused))]
  }
}

function isUnavailable(error: unknown): error is ToolError {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
}
