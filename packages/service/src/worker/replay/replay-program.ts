import { type Result, ToolError } from '@gantry/contract'
import type { Executor, InnerRequest, ProgramJournal } from '@gantry/core'
import type { RecordedCall } from '../../storage/recorded-calls.ts'
import { readEntries, seedOf } from '../execute/program-entries.ts'
import type { Divergence } from './replay-chain.ts'

/** Whether there is a journal to run a program over; one that was refused before it ran has none. */
export function isJournaled({ journal }: RecordedCall): boolean {
  return readEntries(journal, '').startedMs !== undefined
}

/**
 * Runs a recorded program again over its journal: it is told what it was told then, in that order, at those times. What is
 * not on record ends it; nothing is ever made. Whether its calls would be allowed today is not asked.
 */
export async function replayProgram(
  recorded: RecordedCall,
  args: unknown,
  { executor, signal }: { readonly executor: Pick<Executor, 'run'>; readonly signal: AbortSignal },
): Promise<{ readonly outcome: Result; readonly divergence?: Divergence }> {
  const { call } = recorded
  const before = recorded.outcome as Result
  const { startedMs = 0, told } = readEntries(recorded.journal, '')
  let divergence: Divergence | undefined
  let cutShort = false
  const journal: ProgramJournal = {
    seed: seedOf(call.effectKey ?? call.callId, ''),
    startedMs,
    outcomes: told,
    async settle(ask) {
      cutShort = wasStopped(before)
      if (!cutShort) divergence ??= { step: String(ask.number), tool: ask.tool ?? ask.kind, reason: reasonOf(ask) }
      throw new ToolError('CANCELLED', 'The replay ended here.', { stage: 'code', effect: 'none' })
    },
  }
  const tool = call.tool.split(':').slice(0, 2).join(':')
  const outcome = await executor.run(tool, args, {
    ...{ callId: call.callId, identity: call.identity, signal, recorded: before, program: journal },
  })
  if (cutShort) return { outcome: { ...outcome, ...endOf(before) } }
  const { error } = outcome
  const diverged = error?.code === 'CODE_DIVERGED' && before.error?.code !== 'CODE_DIVERGED'
  if (diverged) divergence ??= { step: String(error.details?.number), tool, reason: error.message }
  return divergence === undefined ? { outcome } : { outcome, divergence }
}

function reasonOf({ kind }: InnerRequest): string {
  return `The program did not ask for this ${kind}, so that what it answers is not on record.`
}

/** Whether something from outside ended the program, which is not there in a replay. */
function wasStopped({ status, error }: Result): boolean {
  return status === 'cancelled' || status === 'timeout' || error?.code === 'LIMIT_EXCEEDED'
}

function endOf({ status, output, error }: Result): Pick<Result, 'status' | 'output' | 'error'> {
  return { status, output, ...(error === undefined ? {} : { error }) }
}
