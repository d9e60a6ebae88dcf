import type { Database, Queries } from '../../databases/database.ts'
import type { AdmittedCall, Ahead, ClaimOptions, Ending, Submitted } from '../call-store.ts'
import { certainClaim, isCertain, submit, submitCertain } from './submit.ts'

/** Calls that are on their way into the database over its line, and how their outcomes follow them. */
export interface AheadLine {
  submit(calls: readonly AdmittedCall[], claim: ClaimOptions): Ahead | undefined
  /** Over what these outcomes go: behind their calls, where one of them is on its way. */
  queriesFor(endings: readonly Ending[]): Queries
}

export function createAheadLine(database: Database): AheadLine {
  const { line } = database
  const entering = new Set<string>()
  return {
    submit(calls, claim) {
      if (line?.ready !== true || !calls.every(isCertain)) return undefined
      for (const { callId } of calls) entering.add(callId)
      const submitted = send(line, calls, claim).finally(() => {
        for (const { callId } of calls) entering.delete(callId)
      })
      const entered = submitted.then(mustBeNew)
      // Each claim is watched by whoever works on it; one on which nobody does any more is nobody's concern.
      entered.catch(() => undefined)
      return { claims: calls.map((call) => ({ ...certainClaim(call), entering: entered })), submitted }
    },
    queriesFor: (endings) =>
      line !== undefined && endings.some(({ callId }) => entering.has(callId)) ? line : database,
  }
}

async function send(line: Queries, calls: readonly AdmittedCall[], claim: ClaimOptions): Promise<readonly Submitted[]> {
  const [call, ...more] = calls
  if (call === undefined || more.length > 0) return submit(line, calls, claim, true)
  return [await submitCertain(line, call, claim)]
}

/** Nobody else can have made a call with such an id; if so all the same, the work on it was for nothing. */
function mustBeNew(submitted: readonly Submitted[]): void {
  const other = submitted.find(({ kind }) => kind !== 'new')
  if (other !== undefined) throw new Error(`The call ${other.callId} was there before.`)
}
