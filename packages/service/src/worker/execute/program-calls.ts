import { type Result, ToolError } from '@gantry/contract'
import type { Executor, InnerNames, InnerOutcome, InnerRequest } from '@gantry/core'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { findTool, lost, patiently, unknownResult } from './inner-calls.ts'
import type { InnerCharges } from './inner-charges.ts'
import type { OrderedWriter } from './ordered-writer.ts'

export interface ProgramCallPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: Pick<JournalRecords, 'forget'>
  readonly claim: Claim
  readonly charges: InnerCharges
  readonly writer: OrderedWriter
  readonly known: ReadonlyMap<string, JournalEntry>
  /** Of the attempt, which outlives that of a call. */
  readonly signal: AbortSignal
}

/** A call that a program asks for, and what it is known by. */
export interface ProgramCall {
  readonly ask: InnerRequest
  readonly entry: string
  readonly tool: string
  readonly names: InnerNames & { readonly callId: string; readonly idempotencyKey: string }
}

/** What came of a call. Of one that changes nothing the program may hear before it is durable. */
export interface Made {
  readonly outcome: InnerOutcome
  readonly early: boolean
  /**
   * Takes back that it was about to begin; there when it was said. A store that is away is waited for, because what stays
   * begun is unknown to the next attempt. Rejects with what `isLost` knows when somebody else has the program.
   */
  readonly forget?: () => Promise<void>
}

/**
 * Makes one call of a program as its effect class allows; see `createProgramAttempt`.
 * - Errors: rejects when it could not be begun, because the journal could not be written or the call was stopped.
 */
export async function makeCall(
  { ask, entry, tool: id, names }: ProgramCall,
  make: (names?: InnerNames) => Promise<InnerOutcome>,
  { executor, journal, claim, charges, writer, known, signal: lasting }: ProgramCallPorts,
): Promise<Made> {
  const { signal } = ask
  const tool = findTool(executor, id)
  const early = tool.effect === 'read'
  if (known.has(entry)) {
    const found = await earlier()
    if (found !== undefined) return { outcome: { kind: 'result', result: found }, early }
  }
  const delicate = tool.effect === 'once' || tool.effect === 'reconcilable'
  let begun = false
  const result = await charges.call({ callId: names.callId, tool: tool.id, signal }, async () => {
    if (delicate) await writer.add({ entry })
    else if (!early) await writer.drained()
    begun = delicate
    const made = await make(names)
    if (made.kind === 'result') return made.result
    throw new ToolError('INTERNAL', `What came of ${names.callId} is no Result.`)
  })
  const { callId, fence } = claim
  const forget = async (): Promise<void> => {
    if (!(await patiently(() => journal.forget({ callId, fence }, entry), lasting))) throw lost(callId)
  }
  return { outcome: { kind: 'result', result }, early, ...(begun ? { forget } : {}) }

  /** What came of a call that an earlier attempt began; undefined when it is to be made again. */
  async function earlier(): Promise<Result | undefined> {
    if (tool.effect === 'once') return unknownResult(names, tool, 'Its worker did not come back.')
    if (tool.effect !== 'reconcilable') return undefined
    const asking = { callId: names.callId, identity: claim.call.identity, signal }
    const answer = await executor.reconcile(id, names.idempotencyKey, asking)
    if (answer.state === 'found') return answer.result
    if (answer.state === 'absent') return undefined
    signal.throwIfAborted()
    return unknownResult(names, tool, answer.reason)
  }
}
