import { ToolError } from '@gantry/contract'
import type { Database, Queries } from '../../databases/database.ts'
import type { AdmittedCall, Ahead, ClaimOptions, Ending, Submitted } from '../call-store.ts'
import { certainClaim, isCertain, submit, submitCertain } from './submit.ts'

/** Calls that are on their way into the database over its line, and how their outcomes follow them. */
export interface AheadLine {
  submit(calls: readonly AdmittedCall[], claim: ClaimOptions): Ahead | undefined
  /** Resolves once a call that is on its way is there; undefined for any other. */
  entering(callId: string): Promise<unknown> | undefined
  /** Does the end of calls: behind them, where one of them is on its way. */
  finish<T>(endings: readonly Ending[], end: (queries: Queries) => Promise<T>): Promise<T>
}

export function createAheadLine(database: Database): AheadLine {
  const { line } = database
  const entering = new Map<string, Promise<unknown>>()
  return {
    submit(calls, claim) {
      if (line?.ready !== true || !calls.every(isCertain)) return undefined
      const submitted = send(line, calls, claim).finally(() => {
        for (const { callId } of calls) entering.delete(callId)
      })
      const entered = submitted.then(mustBeNew)
      for (const { callId } of calls) entering.set(callId, entered)
      // Each claim is watched by whoever works on it; one on which nobody does any more is nobody's concern.
      entered.catch(() => undefined)
      return { claims: calls.map((call) => ({ ...certainClaim(call), entering: entered })), submitted }
    },
    entering: (callId) => entering.get(callId),
    async finish(endings, end) {
      const before = endings.flatMap(({ callId }) => entering.get(callId) ?? [])
      if (line === undefined || before.length === 0) return end(database)
      try {
        return await end(line)
      } catch (error) {
        if (!wasNotDone(error)) throw error
        // The line had a fault of its own; once the calls are there, or not, their end can go another way.
        await Promise.allSettled(before)
        return end(database)
      }
    },
  }
}

function wasNotDone(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE' && error.details?.outcome === 'none'
}

/** However late: the outcomes of these calls are sent behind them, and done as late. */
async function send(
  line: Queries,
  calls: readonly AdmittedCall[],
  { notAfter: _, ...claim }: ClaimOptions,
): Promise<readonly Submitted[]> {
  const [call, ...more] = calls
  if (call === undefined || more.length > 0) return submit(line, calls, claim, true)
  return [await submitCertain(line, call, claim)]
}

/** Nobody else can have made a call with such an id; if so all the same, the work on it was for nothing. */
function mustBeNew(submitted: readonly Submitted[]): void {
  const other = submitted.find(({ kind }) => kind !== 'new')
  if (other !== undefined) throw new Error(`The call ${other.callId} was there before.`)
}
