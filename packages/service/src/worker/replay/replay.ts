import {
  type ChainResult,
  type ChainStep,
  type Json,
  type Replay,
  type Result,
  ToolError,
  type Warning,
} from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { RecordedCall } from '../../storage/recorded-calls.ts'
import { type Divergence, isUnrecorded, replayChain, wouldRun } from './replay-chain.ts'
import { differencesOf } from './replay-diff.ts'
import { isJournaled, replayProgram } from './replay-program.ts'

export type Decided = 'allow' | 'ask' | 'deny' | 'unavailable' | 'none'

export interface ReplayPorts {
  readonly executor: Pick<Executor, 'run' | 'chain' | 'catalog'>
  /** The arguments or the chain, as they were admitted. */
  readonly payload: (call: RecordedCall['call'], signal: AbortSignal) => Promise<unknown>
  /** An outcome with what was taken out of its output put back; rejects when that is gone. */
  readonly restore: (recorded: RecordedCall, signal: AbortSignal) => Promise<Result>
  /** An outcome as it would be recorded, which is how the record has it; keeps nothing. */
  readonly shrink: (recorded: RecordedCall, outcome: Result | ChainResult) => Promise<Result | ChainResult>
}

/**
 * Runs a recorded call, chain or program again through the pipeline of today, as its first caller, with the record standing in
 * for every tool, and says what would be different. Nothing is called, kept, counted or sent.
 * - Errors: the payload's when it cannot be read; what the call ends with is in the answer.
 */
export async function replay(recorded: RecordedCall, ports: ReplayPorts, signal: AbortSignal): Promise<Replay> {
  const { call, outcome } = recorded
  const warnings: Warning[] = []
  const payload = await ports.payload(call, signal)
  const ran =
    call.kind === 'chain'
      ? await replayChain(recorded, payload as { steps: readonly ChainStep[]; input?: Json }, { ...ports, signal })
      : call.kind === 'code' && isJournaled(recorded)
        ? await replayProgram(recorded, payload, { ...ports, signal })
        : await replayCall(recorded, payload, ports, warnings, signal)
  const result = await ports.shrink(recorded, ran.outcome)
  const differences = differencesOf(outcome, result)
  const { divergence } = ran
  return {
    ...{ callId: call.callId, kind: call.kind, tool: call.tool, decision: decisionOf(ran.outcome) },
    ...{ same: divergence === undefined && differences.length === 0, differences },
    ...(divergence === undefined ? {} : { divergence }),
    ...{ result, warnings: [...warnings, ...changes(recorded, ran.outcome, ports.executor)] },
  }
}

async function replayCall(
  recorded: RecordedCall,
  args: unknown,
  { executor, restore }: ReplayPorts,
  warnings: Warning[],
  signal: AbortSignal,
): Promise<{ readonly outcome: Result; readonly divergence?: Divergence }> {
  const { call } = recorded
  const before = await restore(recorded, signal).catch((error: unknown) => {
    signal.throwIfAborted()
    const message = 'What was taken out of the output can no longer be read; what is left of it stands in.'
    warnings.push({ code: ToolError.is(error) ? error.code : 'INTERNAL', message })
    return recorded.outcome as Result
  })
  const outcome = await executor.run(call.tool, args, {
    ...{ callId: call.callId, identity: call.identity, signal, recorded: before },
  })
  if (!isUnrecorded(before, outcome)) return { outcome }
  return { outcome, divergence: { tool: call.tool, reason: wouldRun } }
}

const strictest: readonly Decided[] = ['deny', 'unavailable', 'ask', 'none', 'allow']

function decisionOf(outcome: Result | ChainResult): Decided {
  const decided = resultsOf(outcome).map(decisionOn)
  return strictest.find((decision) => decided.includes(decision)) ?? 'none'
}

function decisionOn({ error, warnings }: Result): Decided {
  if (error?.code === 'DENIED' && error.stage === 'authorize') return 'deny'
  if (error?.code === 'POLICY_UNAVAILABLE') return 'unavailable'
  if (error?.stage === 'lookup' || error?.stage === 'validate-input') return 'none'
  return warnings.some(({ code }) => code === 'APPROVAL_REQUIRED') ? 'ask' : 'allow'
}

function resultsOf(outcome: Result | ChainResult): readonly Result[] {
  if (!('chainId' in outcome)) return [outcome]
  return outcome.steps.flatMap((step) => [...step.results, ...(step.steps ?? []).flatMap((member) => member.results)])
}

/** What is no longer as it was: the tool of the call, or the versions that the steps of a chain came to. */
function changes(
  { call, outcome }: RecordedCall,
  after: Result | ChainResult,
  { catalog }: Pick<Executor, 'catalog'>,
): readonly Warning[] {
  if (call.kind === 'call') return changeOf(call, catalog)
  // A program is bound to what it was told, not to how anything is defined.
  if (call.kind === 'code') return []
  const versions = new Map(resultsOf(outcome).map(({ callId, tool }) => [callId, tool?.version]))
  return resultsOf(after).flatMap(({ callId, tool }): Warning[] => {
    const before = versions.get(callId)
    if (tool === undefined || before === undefined || before === tool.version) return []
    const message = `${callId} was a call of ${tool.id}:${before}, and is one of ${tool.id}:${tool.version} now.`
    return [{ code: 'CATALOG_STALE', message }]
  })
}

function changeOf({ tool, digest }: RecordedCall['call'], catalog: Executor['catalog']): readonly Warning[] {
  try {
    const entry = catalog.find(tool)
    if (digest === entry.digest || digest === entry.callDigest) return []
    return [{ code: 'CATALOG_STALE', message: `${tool} is not defined as it was when the call was made.` }]
  } catch {
    return [{ code: 'TOOL_NOT_FOUND', message: `${tool} is not there any more.` }]
  }
}
