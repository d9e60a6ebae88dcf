import {
  type ChainResult,
  type ChainStep,
  codes,
  type Json,
  type Report,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { Executor, WriteBack } from '@gantry/core'
import type { Claim } from '../../storage/calls/call-store.ts'
import { asWaiting } from '../../storage/calls/outcomes.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { createInnerCalls, patiently } from './inner-calls.ts'
import type { InnerCharges } from './inner-charges.ts'
import { timeout } from './run-call.ts'

export interface DurableChain {
  readonly executor: Pick<Executor, 'chain' | 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  /** Makes the calls of the chain count for the limits of who asked for it. */
  readonly charges: InnerCharges
  readonly payload: { readonly steps: readonly ChainStep[]; readonly input?: Json }
  readonly signal: AbortSignal
  /** Where the chain stands in a trace. */
  readonly traceparent?: string | undefined
  /** Hears of each step as it ends; of those that an earlier attempt ended it was told then. */
  readonly report: (report: Report) => void | Promise<void>
  /** Takes what the inner call of an entry of the journal writes back; what it sent is in the results of the steps. */
  readonly writeBack?: (entry: string) => WriteBack
}

/**
 * Runs a chain so that a later attempt, here or elsewhere, takes it up where this one got to; see `createInnerCalls`.
 * A chain in which a person must approve a call first, or a call may not begin yet, has that call's error as its outcome,
 * which is no end.
 * - Cancellation: as a chain's.
 * - Errors: rejects when this attempt has no outcome and the call is still to be done: with what `isLost` knows when
 *   somebody else has it, with the journal's error when it refuses a write, with the signal's reason when it could not
 *   be read until then.
 */
export async function runDurableChain(chain: DurableChain): Promise<ChainResult> {
  const { executor, journal, claim, payload, signal } = chain
  const known = await patiently(() => journalOf(claim, journal), signal)
  const progress = createProgress(chain, known.size === 0)
  const inner = createInnerCalls(chain, known, progress.goesOn)
  const result = await executor.chain(payload.steps, {
    chainId: claim.callId,
    identity: claim.call.identity,
    input: payload.input ?? null,
    signal,
    traceparent: chain.traceparent,
    // What waits for a circuit does so in the queue, and not in a worker.
    onCircuitOpen: 'fail',
    around: inner.settle,
    onStep: (step) => {
      if (inner.waits === undefined) progress.ended(step)
    },
    ...timeout(claim),
  })
  if (inner.failure !== undefined) throw inner.failure
  if (inner.waits === undefined || signal.aborted || result.status === 'ok') return result
  const { status } = codes[inner.waits.code]
  return asWaiting(result.status === 'cancelled' ? { ...result, status, error: inner.waits } : result)
}

/**
 * What earlier attempts did, and those of the chain that this one repeats, whose entries it was given; whoever is the first
 * finds nothing. One that an older version handed in was given none, and finds them where they were.
 */
export async function journalOf(
  { callId, fence, call: { effectKey } }: Claim,
  journal: JournalRecords,
): Promise<ReadonlyMap<string, JournalEntry>> {
  const repeated = effectKey === undefined ? [] : await journal.read(effectKey)
  const own = fence > 1 || effectKey !== undefined ? await journal.read(callId) : []
  return new Map([...repeated, ...own])
}

/** Whether an error says that somebody else has the call, so that nothing of this attempt counts. */
export function isLost(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'CANCELLED' && error.details?.lost === true
}

/** Reports steps as they end, from the first one on that is not merely read back. */
function createProgress({ payload, report }: DurableChain, fresh: boolean) {
  const total = payload.steps.length
  let progress = 0
  let told = fresh
  return {
    goesOn(): void {
      told = true
    },
    ended({ id, state }: StepResult): void {
      progress += 1
      if (told)
        void report({ kind: 'progress', progress, total, message: `Step ${progress} of ${total}, ${id}: ${state}.` })
    },
  }
}
