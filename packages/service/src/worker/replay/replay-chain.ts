import { type ChainResult, type Result, type StepResult, ToolError } from '@gantry/contract'
import type { Executor, InnerRequest, InnerStep, ProgramJournal } from '@gantry/core'
import type { StepMiddleware } from '@gantry/core/internal/chain/chain'
import type { RecordedCall } from '../../storage/call-views.ts'
import { readEntries, seedOf } from '../execute/program-calls.ts'
import type { ChainPayload } from '../execute/run-chain.ts'

/** Where a replay left the record, and why it could not go on. */
export interface Divergence {
  /** The step, and the element of a `forEach`; absent when it is the call itself. */
  readonly step?: string
  readonly tool: string
  readonly reason: string
}

interface ReplayedChain {
  readonly outcome: ChainResult
  readonly divergence?: Divergence
}

/**
 * Replays a recorded chain: its steps are bound, decided and checked under the current configuration, with the record
 * in place of each tool. A call that is not on record ends the chain, whatever the step's `onError`; it is never made.
 */
export async function replayChain(
  { call, outcome, journal }: RecordedCall,
  payload: ChainPayload,
  { executor, signal }: { readonly executor: Pick<Executor, 'chain'>; readonly signal: AbortSignal },
): Promise<ReplayedChain> {
  const before = chainResultOf({ call, outcome })
  let divergence: Divergence | undefined
  let cutShort = false
  const leave = (step: InnerStep, reason: string): never => {
    divergence ??= { step: entryOf(step), tool: step.tool, reason }
    throw new ToolError('CANCELLED', `The replay ended here: ${reason}`, { stage: 'chain', effect: 'none' })
  }
  const around: StepMiddleware = async (step, make) => {
    const entry = entryOf(step)
    const kept = journal.get(entry)
    const known: Result | undefined = kept?.state === 'done' ? JSON.parse(kept.result) : resultIn(before.steps, step)
    if (known === undefined) return leave(step, whyUnknown(kept !== undefined))
    const result = await make({ callId: `${call.callId}.${entry}`, recorded: known })
    if (isUnrecorded(known, result)) return leave(step, wouldRun)
    // A call without an entry was aborted with its chain, which ended there.
    cutShort ||= kept?.state !== 'done' && known.status !== 'ok'
    if (cutShort) throw new ToolError('CANCELLED', 'The chain was stopped here.', { stage: 'chain', effect: 'none' })
    return result
  }
  const result = await executor.chain(payload.steps, {
    chainId: call.callId,
    identity: call.identity,
    input: payload.input ?? null,
    signal,
    around,
  })
  if (divergence !== undefined) return { outcome: result, divergence }
  return { outcome: cutShort ? { ...result, ...endOf(before) } : result }
}

/** The recorded outcome of a call or program. */
export function resultOf({ call, outcome }: Pick<RecordedCall, 'call' | 'outcome'>): Result {
  if (!('chainId' in outcome)) return outcome
  throw new ToolError('INTERNAL', `The outcome of call ${call.callId} is that of a chain.`)
}

function chainResultOf({ call, outcome }: Pick<RecordedCall, 'call' | 'outcome'>): ChainResult {
  if ('chainId' in outcome) return outcome
  throw new ToolError('INTERNAL', `The outcome of chain ${call.callId} is not that of a chain.`)
}

/** The journal entry of a call of a chain. */
function entryOf({ stepId, index }: InnerStep): string {
  return index === undefined ? stepId : `${stepId}.${index}`
}

export const wouldRun =
  'Today the tool would run, and then it was refused before it did: what it answers is not on record.'

/** Whether a dry run reached a point at which only the tool could have answered. */
export function isUnrecorded(before: Pick<Result, 'error'>, after: Pick<Result, 'error'>): boolean {
  return after.error?.code === 'OUTCOME_UNKNOWN' && before.error?.code !== 'OUTCOME_UNKNOWN'
}

function whyUnknown(begun: boolean): string {
  if (begun) return 'The call was started, and its outcome is not recorded.'
  return 'The chain did not make this call, so that what it answers is not on record.'
}

/** The outcome of a chain that was stopped from outside, which a replay cannot reproduce. */
function endOf({ status, output, error }: ChainResult): Pick<ChainResult, 'status' | 'output' | 'error'> {
  return { status, output, ...(error === undefined ? {} : { error }) }
}

/** The Result of a call as its chain reported it. */
function resultIn(steps: readonly StepResult[], step: InnerStep): Result | undefined {
  for (const { id, results, steps: members } of steps) {
    if (id === step.stepId) return results[step.index ?? 0]
    const found = members === undefined ? undefined : resultIn(members, step)
    if (found !== undefined) return found
  }
  return undefined
}

/** Whether there is a journal to replay a program from; one that was refused before it ran has none. */
export function isJournaled({ journal }: RecordedCall): boolean {
  return readEntries(journal, '').startedMs !== undefined
}

/**
 * Replays a recorded program from its journal: it gets the recorded outcomes, in their order, at their times. A request
 * that is not on record ends it; no call is ever made. Whether its calls would be allowed today is not checked.
 */
export async function replayProgram(
  recorded: RecordedCall,
  args: unknown,
  { executor, signal }: { readonly executor: Pick<Executor, 'run'>; readonly signal: AbortSignal },
): Promise<{ readonly outcome: Result; readonly divergence?: Divergence }> {
  const { call } = recorded
  const before = resultOf(recorded)
  const { startedMs = 0, outcomes } = readEntries(recorded.journal, '')
  let divergence: Divergence | undefined
  let cutShort = false
  const journal: ProgramJournal = {
    seed: seedOf(call.effectKey ?? call.callId, ''),
    startedMs,
    outcomes,
    async settle(ask) {
      cutShort = wasStopped(before)
      if (!cutShort) divergence ??= { step: String(ask.number), tool: ask.tool ?? ask.kind, reason: reasonOf(ask) }
      throw new ToolError('CANCELLED', 'The replay ended here.', { stage: 'code', effect: 'none' })
    },
  }
  const tool = call.tool.split(':').slice(0, 2).join(':')
  const outcome = await executor.run(tool, args, {
    callId: call.callId,
    identity: call.identity,
    signal,
    recorded: before,
    program: journal,
  })
  if (cutShort) return { outcome: { ...outcome, ...programEndOf(before) } }
  const { error } = outcome
  const diverged = error?.code === 'CODE_DIVERGED' && before.error?.code !== 'CODE_DIVERGED'
  if (diverged) divergence ??= { step: String(error.details?.number), tool, reason: error.message }
  return divergence === undefined ? { outcome } : { outcome, divergence }
}

function reasonOf({ kind }: InnerRequest): string {
  return `The program did not ask for this ${kind}, so that what it answers is not on record.`
}

/** Whether the program was stopped from outside, which a replay cannot reproduce. */
function wasStopped({ status, error }: Result): boolean {
  return status === 'cancelled' || status === 'timeout' || error?.code === 'LIMIT_EXCEEDED'
}

function programEndOf({ status, output, error }: Result): Pick<Result, 'status' | 'output' | 'error'> {
  return { status, output, ...(error === undefined ? {} : { error }) }
}
