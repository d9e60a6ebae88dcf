import {
  type ArtifactRef,
  type ChainResult,
  type ChainStep,
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
import type { Executor } from '@gantry/core'
import type { Snapshots } from '../../config/snapshots.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { createDigest } from '../../storage/artifacts/content.ts'
import { readPayload } from '../../storage/artifacts/payload.ts'
import { noteAudit } from '../../storage/audit/entries.ts'
import type { CallViews } from '../../storage/call-views.ts'
import type { Database } from '../../storage/databases/database.ts'
import { type RecordedCall, readRecorded } from '../../storage/recorded-calls.ts'
import { offloadResult, type ResultLimits, restoreOutput } from '../record/offload-result.ts'
import { type Divergence, isJournaled, isUnrecorded, replayChain, replayProgram, wouldRun } from './replay-chain.ts'

type Decided = 'allow' | 'ask' | 'deny' | 'unavailable' | 'none'

interface ReplayPorts {
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
async function replay(recorded: RecordedCall, ports: ReplayPorts, signal: AbortSignal): Promise<Replay> {
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

interface ReplayingParts {
  readonly database: Database
  readonly views: CallViews
  readonly artifacts: Artifacts
  readonly snapshots: Snapshots
  readonly limits: Partial<ResultLimits>
}

/** Replays calls of the service, under the present configuration; each is on the audit record before it begins. */
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
          restore: ({ outcome, files }) => restoreOutput(outcome as Result, { artifacts, files, signal }),
          async shrink({ call, fence }, outcome) {
            const keep = keeping(recorded)
            const governed = await offloadResult({ callId, fence, call }, outcome, {
              artifacts: { keep },
              limits,
              signal,
            })
            return governed.result
          },
        },
        signal,
      ),
    )
  }
}

/** Names the file that the record has of the same content, so that both outcomes name it alike; keeps nothing. */
function keeping({ files }: RecordedCall): Artifacts['keep'] {
  return async (content, { name, mimeType }): Promise<ArtifactRef> => {
    const hash = createDigest()
    hash.add(content)
    const digest = hash.end()
    return files.get(digest) ?? { id: 'not kept', name, mimeType, bytes: content.length, digest }
  }
}

/** One place in which two outcomes are not alike; what is absent from one of them is left out. */
interface Difference {
  /** JSON Pointer into the outcome. */
  readonly path: string
  readonly before?: Json
  readonly after?: Json
}

const mostDifferences = 100
const longestValue = 1_000

/**
 * Where two outcomes of a call differ in what their reader would see: status, output, content, error, what was said of
 * the output, and the same for each step of a chain. When it ran, for how long and how often is left out.
 * The list ends after a hundred, and long values are cut.
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
    ...{ id, state, output, ...comparableError(error), results: results.map(comparableResult) },
    ...(steps === undefined ? {} : { steps: steps.map(comparableStep) }),
  }
}

function comparableResult({ status, output, content, error, warnings }: Result): JsonObject {
  const said = warnings.filter(({ code }) => code === 'OUTPUT_INVALID' || code === 'DEPRECATED')
  return {
    ...{ status, output, content: content as unknown as Json, ...comparableError(error) },
    warnings: said.map(({ code, message }) => ({ code, message })),
  }
}

function comparableError(error: ErrorInfo | undefined): JsonObject {
  if (error === undefined) return {}
  const { code, message, stage, details } = error
  return { error: { code, message, stage, ...(details === undefined ? {} : { details: details as JsonObject }) } }
}

function compare(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (before === after || found.length >= mostDifferences) return
  if (isComposite(before) && isComposite(after) && Array.isArray(before) === Array.isArray(after)) {
    const [left, right] = [before as JsonObject, after as JsonObject]
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      compare(own(left, key), own(right, key), `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, found)
    }
    return
  }
  found.push({
    path,
    ...(before === undefined ? {} : { before: shown(before) }),
    ...(after === undefined ? {} : { after: shown(after) }),
  })
}

function isComposite(value: Json | undefined): value is JsonObject | Json[] {
  return typeof value === 'object' && value !== null
}

function own(value: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined
}

/** A long value as the beginning of its text. */
function shown(value: Json): Json {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= longestValue ? value : `${text.slice(0, longestValue)}…`
}
