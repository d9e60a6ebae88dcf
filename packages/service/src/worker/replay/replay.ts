import {
  type ArtifactRef,
  type ChainResult,
  type ErrorInfo,
  type Identity,
  type Json,
  type JsonObject,
  type Replay,
  type Result,
  type StepResult,
  ToolError,
  type Warning,
} from '@gantry/contract'
import { isComposite } from '@gantry/contract/internal/json'
import type { Executor } from '@gantry/core'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { createDigest } from '../../storage/artifacts/content.ts'
import { readPayload } from '../../storage/artifacts/payload.ts'
import { noteAudit } from '../../storage/audit/entries.ts'
import { type CallViews, type RecordedCall, readRecorded } from '../../storage/call-views.ts'
import type { Database } from '../../storage/databases/database.ts'
import { chainPayload } from '../execute/run-chain.ts'
import { offloadResult, type ResultLimits, restoreOutput } from '../record/offload-result.ts'
import {
  type Divergence,
  isJournaled,
  isUnrecorded,
  replayChain,
  replayProgram,
  resultOf,
  wouldRun,
} from './replay-chain.ts'

type Decided = 'allow' | 'ask' | 'deny' | 'unavailable' | 'none'

interface ReplayPorts {
  readonly executor: Pick<Executor, 'run' | 'chain' | 'catalog'>
  /** The arguments or the chain, as they were admitted. */
  readonly payload: (call: RecordedCall['call'], signal: AbortSignal) => Promise<unknown>
  /** The outcome with its offloaded output restored; rejects when a file no longer exists. */
  readonly restore: (recorded: RecordedCall, signal: AbortSignal) => Promise<Result>
  /** The outcome as it would be recorded, for comparison with the record; stores nothing. */
  readonly shrink: (recorded: RecordedCall, outcome: Result | ChainResult) => Promise<Result | ChainResult>
}

/**
 * Replays a recorded call, chain or program through the current pipeline, as its first caller, with the record in place
 * of every tool, and returns the differences. No tool is called, and nothing is stored, counted or sent.
 * - Errors: those of the payload when it cannot be read; the outcome of the call is in the answer.
 */
async function replay(recorded: RecordedCall, ports: ReplayPorts, signal: AbortSignal): Promise<Replay> {
  const { call, outcome } = recorded
  const warnings: Warning[] = []
  const payload = await ports.payload(call, signal)
  const ran =
    call.kind === 'chain'
      ? await replayChain(recorded, chainPayload(payload), { ...ports, signal })
      : call.kind === 'code' && isJournaled(recorded)
        ? await replayProgram(recorded, payload, { ...ports, signal })
        : await replayCall(recorded, payload, ports, warnings, signal)
  const result = await ports.shrink(recorded, ran.outcome)
  const differences = differencesOf(outcome, result)
  const { divergence } = ran
  return {
    callId: call.callId,
    kind: call.kind,
    tool: call.tool,
    decision: decisionOf(ran.outcome),
    same: divergence === undefined && differences.length === 0,
    differences,
    ...(divergence === undefined ? {} : { divergence }),
    result,
    warnings: [...warnings, ...changes(recorded, ran.outcome, ports.executor)],
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
    const message = 'The offloaded part of the output can no longer be read; the replay uses the preview in its place.'
    warnings.push({ code: ToolError.is(error) ? error.code : 'INTERNAL', message })
    return resultOf(recorded)
  })
  const outcome = await executor.run(call.tool, args, {
    callId: call.callId,
    identity: call.identity,
    signal,
    recorded: before,
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

/** The changes since the call: the digest of its tool, or the versions of the tools of a chain's steps. */
function changes(
  { call, outcome }: RecordedCall,
  after: Result | ChainResult,
  { catalog }: Pick<Executor, 'catalog'>,
): readonly Warning[] {
  if (call.kind === 'call') return changeOf(call, catalog)
  // A program is bound to its journal, not to the definitions of its tools.
  if (call.kind === 'code') return []
  const versions = new Map(resultsOf(outcome).map(({ callId, tool }) => [callId, tool?.version]))
  return resultsOf(after).flatMap(({ callId, tool }): Warning[] => {
    const before = versions.get(callId)
    if (tool === undefined || before === undefined || before === tool.version) return []
    const message = `${callId} called ${tool.id}:${before}, and would call ${tool.id}:${tool.version} now.`
    return [{ code: 'CATALOG_STALE', message }]
  })
}

function changeOf({ tool, digest }: RecordedCall['call'], catalog: Executor['catalog']): readonly Warning[] {
  try {
    const entry = catalog.find(tool)
    if (digest === entry.digest || digest === entry.callDigest) return []
    return [{ code: 'CATALOG_STALE', message: `The definition of ${tool} has changed since the call was made.` }]
  } catch {
    return [{ code: 'TOOL_NOT_FOUND', message: `${tool} no longer exists.` }]
  }
}

interface ReplayingParts {
  readonly database: Database
  readonly views: CallViews
  readonly artifacts: Artifacts
  readonly snapshots: Snapshots
  readonly limits: Partial<ResultLimits>
}

/** Replays calls of the service, under the current configuration; each replay is in the audit log before it begins. */
export function createReplaying({ database, views, artifacts, snapshots, limits }: ReplayingParts) {
  return async (callId: string, reader: Identity, signal: AbortSignal): Promise<Replay> => {
    const { tenant, principal } = reader
    const recorded = await readRecorded(database.asTenant(tenant), views, { callId, reader, signal })
    await noteAudit(database, { tenant, principal, action: 'calls.replay', target: callId })
    return snapshots.use(({ executor }) =>
      replay(
        recorded,
        {
          executor,
          payload: (call) => readPayload(call, artifacts, signal),
          restore: (one) => restoreOutput(resultOf(one), { artifacts, files: one.files, signal }),
          async shrink({ call, fence }, outcome) {
            const keep = keeping(recorded)
            const offloaded = await offloadResult({ callId, fence, call }, outcome, {
              artifacts: { keep },
              limits,
              signal,
            })
            return offloaded.result
          },
        },
        signal,
      ),
    )
  }
}

/** Returns the recorded file of the same content, so that both outcomes have the same id; stores nothing. */
function keeping({ files }: RecordedCall): Artifacts['keep'] {
  return async (content, { name, mimeType }): Promise<ArtifactRef> => {
    const hash = createDigest()
    hash.add(content)
    const digest = hash.end()
    return files.get(digest) ?? { id: 'not kept', name, mimeType, bytes: content.length, digest }
  }
}

/** One difference between two outcomes; the value of the one that lacks it is absent. */
interface Difference {
  /** JSON Pointer into the outcome. */
  readonly path: string
  readonly before?: Json
  readonly after?: Json
}

const mostDifferences = 100
const longestValue = 1_000

/**
 * The differences of two outcomes of a call that are visible to a reader: status, output, content, error, warnings, and
 * the same for each step of a chain. Times, durations and attempts are ignored. The list ends after a hundred, and long
 * values are truncated.
 */
export function differencesOf(before: Result | ChainResult, after: Result | ChainResult): readonly Difference[] {
  const found: Difference[] = []
  compare(comparable(before), comparable(after), '', found)
  return found
}

function comparable(outcome: Result | ChainResult): Json {
  return 'chainId' in outcome ? comparableChain(outcome) : comparableResult(outcome)
}

function comparableChain({ status, output, error, steps }: ChainResult): JsonObject {
  return { status, output, ...comparableError(error), steps: steps.map(comparableStep) }
}

function comparableStep({ id, state, output, error, results, steps }: StepResult): JsonObject {
  return {
    id,
    state,
    output,
    ...comparableError(error),
    results: results.map(comparableResult),
    ...(steps === undefined ? {} : { steps: steps.map(comparableStep) }),
  }
}

function comparableResult({ status, output, content, error, warnings }: Result): JsonObject {
  const comparable = warnings.filter(({ code }) => code === 'OUTPUT_INVALID' || code === 'DEPRECATED')
  return {
    status,
    output,
    content: content as unknown as Json,
    ...comparableError(error),
    warnings: comparable.map(({ code, message }) => ({ code, message })),
  }
}

function comparableError(error: ErrorInfo | undefined): JsonObject {
  if (error === undefined) return {}
  const { code, message, stage, details } = error
  return { error: { code, message, stage, ...(details === undefined ? {} : { details }) } }
}

function compare(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (before === after || found.length >= mostDifferences) return
  if (isComposite(before) && isComposite(after) && Array.isArray(before) === Array.isArray(after)) {
    const [left, right] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
    for (const key of new Set([...left.keys(), ...right.keys()])) {
      compare(left.get(key), right.get(key), `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, found)
    }
    return
  }
  found.push({
    path,
    ...(before === undefined ? {} : { before: shown(before) }),
    ...(after === undefined ? {} : { after: shown(after) }),
  })
}

/** A long value as the beginning of its text. */
function shown(value: Json): Json {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= longestValue ? value : `${text.slice(0, longestValue)}…`
}
