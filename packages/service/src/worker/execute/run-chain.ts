import {
  type ChainResult,
  type ChainStep,
  codes,
  type Json,
  type Report,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { EffectSink, Executor } from '@gantry/core'
import { asWaiting, timeoutOf } from '../../storage/calls/call-facts.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { createInnerCalls, patiently } from './inner-calls.ts'
import type { InnerCharges } from './inner-charges.ts'

/** The payload of a chain. */
export interface ChainPayload {
  readonly steps: readonly ChainStep[]
  readonly input?: Json
}

/** The payload as a chain, which was checked at admission. */
export function chainPayload(payload: unknown): ChainPayload {
  if (isChainPayload(payload)) return payload
  throw new ToolError('PAYLOAD_INVALID', 'The payload of the chain has no list of steps.')
}

function isChainPayload(payload: unknown): payload is ChainPayload {
  return isObject(payload) && Array.isArray(payload.steps)
}

export interface DurableChain {
  readonly executor: Pick<Executor, 'chain' | 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  /** Charges the calls to the limits of the chain's caller. */
  readonly charges: InnerCharges
  readonly payload: ChainPayload
  readonly signal: AbortSignal
  /** The trace context of the chain. */
  readonly traceparent?: string | undefined
  /** Receives each step as it ends; not those that an earlier attempt ended. */
  readonly report: (report: Report) => void | Promise<void>
  /** Stores the effects of the inner call of a journal entry; its messages are in the results of the steps. */
  readonly effectSink?: (entry: string) => EffectSink
}

/**
 * Runs a chain so that a later attempt, in any worker, resumes it where this one got to; see `createInnerCalls`. A
 * chain with a call that requires approval, or that may not begin yet, has that call's error as its outcome, which is
 * not final.
 * - Cancellation: as for any chain.
 * - Errors: rejects when this attempt has no outcome and the call remains to be done: with an error that `isLost`
 *   recognises when another worker has it, with the journal's error when it refuses a write, with the signal's reason
 *   when the journal could not be read until then.
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
    // A call that waits for a circuit waits in the queue, not in a worker.
    onCircuitOpen: 'fail',
    around: inner.settle,
    onStep: (step) => {
      if (inner.waits === undefined) progress.ended(step)
    },
    ...timeoutOf(claim),
  })
  if (inner.failure !== undefined) throw inner.failure
  if (inner.waits === undefined || signal.aborted || result.status === 'ok') return result
  const { status } = codes[inner.waits.code]
  return asWaiting(result.status === 'cancelled' ? { ...result, status, error: inner.waits } : result)
}

/**
 * The entries of earlier attempts, and of the chain that this one repeats; the first attempt finds none. A chain that
 * an older version submitted has no copies of them, and reads the entries of the chain that it repeats.
 */
export async function journalOf(
  { callId, fence, call: { effectKey } }: Claim,
  journal: JournalRecords,
): Promise<ReadonlyMap<string, JournalEntry>> {
  const repeated = effectKey === undefined ? [] : await journal.read(effectKey)
  const own = fence > 1 || effectKey !== undefined ? await journal.read(callId) : []
  return new Map([...repeated, ...own])
}

/** Whether the error means that the lease is lost, so that this attempt does not count. */
export function isLost(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'CANCELLED' && error.details?.lost === true
}

/** Reports steps as they end, from the first one that is not only replayed. */
function createProgress({ payload, report }: DurableChain, fresh: boolean) {
  const total = payload.steps.length
  let progress = 0
  let goesOn = fresh
  return {
    goesOn(): void {
      goesOn = true
    },
    ended({ id, state }: StepResult): void {
      progress += 1
      if (goesOn)
        void report({ kind: 'progress', progress, total, message: `Step ${progress} of ${total}, ${id}: ${state}.` })
    },
  }
}
