import { ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import { type BatchOptions, createBatch } from '../../storage/batch.ts'
import { endedOutcome } from '../../storage/calls/call-facts.ts'
import type { CallStore, Ending, StoredReport } from '../../storage/calls/call-store.ts'
import type { Spool } from './spool.ts'

/** How an outcome was recorded. */
export type Recorded =
  /** It is the outcome of the call. */
  | 'accepted'
  /** Another worker has the lease: this outcome does not count. */
  | 'refused'
  /** It waits on disk until the database is back. */
  | 'spooled'
  /** The call may be lost from the database, so its outcome is not kept; if the call is still stored, it runs again. */
  | 'left'

/**
 * Makes outcomes durable.
 * - Concurrency: any number at once; they are committed in batches.
 * - Errors: rejects only when neither the database nor the disk accepts the outcome; then the lease expires.
 */
export interface Recorder {
  finish(ending: Ending): Promise<Recorded>
  /** Records the spooled outcomes; rejects as the store does. */
  drain(): Promise<void>
  readonly spooled: number
}

export interface RecorderOptions {
  readonly store: CallStore
  /** Stores the reports of a call, before its outcome; without it they are dropped. */
  readonly append?: (events: readonly StoredReport[]) => Promise<void>
  readonly spool: Spool
  readonly bus: Bus
  readonly batch?: BatchOptions
}

/** An upper bound: few calls are submitted ahead, and none while the store is slow. */
const mostBehind = 1_000

export function createRecorder(options: RecorderOptions): Recorder {
  const { store, append, spool, bus, batch: how = { atOnce: 2 } } = options
  let draining: Promise<void> = Promise.resolve()
  /** The spool is used by one operation at a time, so that order and file stay consistent. */
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
  /** Events that the database refuses for good must not block their outcome. */
  const storeEvents = async (events: readonly StoredReport[]): Promise<void> => {
    try {
      await append?.(events)
    } catch (error) {
      if (isUnavailable(error)) throw error
      bus.emit('upkeep:failed', { what: 'events', reason: String(error) })
    }
  }
  const commit = async (endings: readonly Ending[]): Promise<readonly Recorded[]> => {
    // The store answers by call id, so two outcomes of one call, of an old and a new fence, are committed one after the
    // other.
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
    // Spooled outcomes are older: nothing overtakes them while the database is unavailable.
    if (spool.depth > 0) return keep(endings)
    try {
      return await commit(endings)
    } catch (error) {
      if (isUnavailable(error)) return keep(endings)
      if (endings.length === 1) return [{ failure: error }]
      // One outcome that the database refuses must not fail the others.
      return (await Promise.all(endings.map((ending) => record([ending])))).flat()
    }
  }
  /**
   * One outcome that the database refuses blocks neither the others nor the spool: an error is recorded in its place,
   * as for an outcome that was never spooled.
   */
  const commitSpooled = async (endings: readonly Ending[]): Promise<void> => {
    try {
      await commit(endings)
    } catch (error) {
      if (!isRefusal(error)) throw error
      const [first] = endings
      if (first === undefined) return
      if (endings.length > 1) {
        for (const ending of endings) await commitSpooled([ending])
        return
      }
      const reason = `the database refuses the outcome of call ${first.callId}: ${reasonOf(error)}`
      bus.emit('upkeep:failed', { what: 'spool', reason })
      await commit([substituteFor(first, error)]).catch((second: unknown) => {
        // Without any outcome the lease expires, and the store decides on the call.
        if (!isRefusal(second)) throw second
      })
    }
  }
  // A tenant has fewer slots than the worker, and its next calls start when the first ones free theirs; the outcomes of
  // short calls of both all arrive before the next tick, and one statement for them costs less than two.
  const batch = createBatch(record, { sooner: process.nextTick, ...how })
  /** An outcome whose call is still being inserted waits for that alone, and delays no other. */
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
        // A shared spool may hold outcomes of other workers.
        let handed = 0
        let fault: unknown
        const spooling = { dependency: 'spool', operation: 'drain' } as const
        try {
          await spool.drain(async (endings) => {
            try {
              // Data of the call in a spool file is not trusted: the store reads it itself.
              await commitSpooled(endings.map(({ plain: _, ...ending }) => ending))
            } catch (error) {
              fault = error
              throw error
            }
            handed += endings.length
          })
          bus.emit('dependency:worked', spooling)
        } catch (error) {
          if (error !== fault) bus.emit('dependency:failed', { ...spooling, reason: reasonOf(error) })
          throw error
        }
        if (handed > 0) bus.emit('spool:changed', { depth: spool.depth })
      }),
    get spooled() {
      return spool.depth
    },
  }
}

/** Commits; when the answer to the commit is lost, looks up the outcomes before it commits again. */
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
    // The first commit may have succeeded only now, and then it is what refused the second.
    return [...done, ...accepted, ...(refused.length === 0 ? [] : await store.outcomes(refused))]
  }
}

/** Whether the store refuses the content of an outcome, and will refuse it again. */
export function isRefusal(error: unknown): boolean {
  return !ToolError.is(error) || error.code === 'INTERNAL' || !error.retryable
}

/** The outcome that is recorded for a call whose spooled outcome the database refuses; it becomes a dead letter. */
function substituteFor({ callId, fence, result }: Ending, refusal: unknown): Ending {
  const { startedAt, durationMs } = result
  const failure = new ToolError('INTERNAL', `The outcome of the call could not be recorded: ${reasonOf(refusal)}`)
  const isChain = 'chainId' in result
  const tool = isChain || result.tool === undefined ? '' : `${result.tool.id}:${result.tool.version}`
  const call = { callId, kind: isChain ? ('chain' as const) : ('call' as const), tool }
  const attempts = isChain ? 1 : result.attempts
  const ended = { ...endedOutcome(call, failure, attempts, new Date(startedAt)), durationMs }
  const text = JSON.stringify(ended)
  const dead = { reason: 'The store refused its outcome.' }
  return { callId, fence, result: ended, text, bytes: Buffer.byteLength(text), dead }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function isUnavailable(error: unknown): error is ToolError {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
}
