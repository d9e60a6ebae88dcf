import { text } from 'node:stream/consumers'
import { type ArtifactRef, type ChainResult, type ErrorInfo, type Json, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { type Artifacts, areArtifactsUnavailable, isOverQuota } from '../../storage/artifacts/artifact-records.ts'
import type { AdmittedCall, Ending, Holder } from '../../storage/calls/call-store.ts'
import type { Task } from '../slot-scheduler.ts'
import { type DraftChain, type DraftResult, draftOf, type Part, partsOf, takeOut } from './result-parts.ts'

export interface ResultLimits {
  /** Up to this size of its JSON text a result stays inline. */
  readonly inlineBytes: number
  /** The same limit while the artifact store is unavailable. */
  readonly inlineMaxBytes: number
  /** The limit of one file. */
  readonly artifactBytes: number
}

const defaultResultLimits: ResultLimits = {
  inlineBytes: 65_536,
  inlineMaxBytes: 1_048_576,
  artifactBytes: 268_435_456,
}

export interface OffloadOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly limits?: Partial<ResultLimits>
  /** When it aborts, or after a minute, the artifact store counts as unavailable. */
  readonly signal: AbortSignal
  /** Called with the reason why a file could not be stored. */
  readonly failed?: (error: unknown) => void
}

const storeMs = 60_000

/** An outcome as it is to be recorded: with its text, or with the digest of the file that holds it. */
type OffloadedResult = Pick<Ending, 'result' | 'text' | 'ref' | 'bytes'>

/** Offloads the results of tasks. */
export function createOffload(options: OffloadOptions) {
  return ({ claim }: Pick<Task, 'claim'>, outcome: Result | ChainResult) => offloadResult(claim, outcome, options)
}

/**
 * Makes an outcome small enough for a row. Large parts are offloaded to artifacts, the largest first, and leave a
 * preview; an outcome that is too large even then is offloaded as one file. Without the artifact store the result stays
 * inline up to a limit, and without the database at any size, because then it waits on disk. Only beyond that does the
 * call fail with RESULT_TOO_LARGE and a preview.
 * - Never rejects: the outcome would be lost.
 */
export async function offloadResult(
  { callId, fence, call }: Holder & { readonly call: Pick<AdmittedCall, 'identity'> },
  outcome: Result | ChainResult,
  options: OffloadOptions,
): Promise<OffloadedResult> {
  const { inlineBytes, inlineMaxBytes, artifactBytes } = limitsOf(options.limits)
  const whole = written(outcome)
  if (whole.bytes <= inlineBytes) return whole
  const files = resultFiles({
    artifacts: options.artifacts,
    holder: { callId, fence },
    owner: call.identity,
    maxBytes: artifactBytes,
    signal: AbortSignal.any([options.signal, AbortSignal.timeout(storeMs)]),
    failed: options.failed ?? (() => undefined),
  })
  const draft = draftOf(outcome)
  const parts = partsOf(draft)
  const characters = previewCharacters(parts.length, inlineBytes)
  let small = whole
  while (small.bytes > inlineBytes && parts.length > 0 && files.unavailable === undefined) {
    await spill(parts, small.bytes - inlineBytes, files, characters)
    small = written(draft)
  }
  if (small.bytes <= inlineBytes) return small
  const { result, text, bytes } = small
  const file = await files.keep(text, { name: 'result.json', mimeType: 'application/json' })
  if (file !== undefined) return { result, ref: file.digest, bytes }
  // Rows must not bypass the quota.
  const overQuota = files.unavailable === 'quota'
  const most = overQuota ? inlineBytes : inlineMaxBytes
  if (bytes <= most || files.unavailable === 'database') return small
  return written(cutDown(draft, { parts, bytes: whole.bytes, most, characters, overQuota }))
}

/**
 * Copied one by one, because the limits may be all the settings of a service, and copying those takes longer than a
 * call.
 */
function limitsOf(given: Partial<ResultLimits> = {}): ResultLimits {
  return {
    inlineBytes: given.inlineBytes ?? defaultResultLimits.inlineBytes,
    inlineMaxBytes: given.inlineMaxBytes ?? defaultResultLimits.inlineMaxBytes,
    artifactBytes: given.artifactBytes ?? defaultResultLimits.artifactBytes,
  }
}

function written(result: Result | ChainResult): Required<Pick<OffloadedResult, 'result' | 'text' | 'bytes'>> {
  const text = JSON.stringify(result)
  return { result, text, bytes: Buffer.byteLength(text) }
}

const mostCharacters = 3_072
const leastCharacters = 96

/** Previews share half of the inline limit, however many there are. */
function previewCharacters(parts: number, inlineBytes: number): number {
  const share = Math.floor(inlineBytes / 2 / Math.max(1, parts))
  return Math.max(leastCharacters, Math.min(mostCharacters, share))
}

/** The approximate size of a marker without its preview. */
const markerBytes = 512

/** Offloads parts, first to last, until they are `excess` bytes smaller; the remaining parts stay in the list. */
async function spill(parts: Part[], excess: number, files: ResultFiles, characters: number): Promise<void> {
  let left = excess
  for (let part = parts[0]; part !== undefined && left > 0; part = parts[0]) {
    const artifact = await files.keep(part.content, part)
    if (artifact === undefined) return
    takeOut(part, artifact, characters)
    parts.shift()
    left -= part.bytes - characters - markerBytes
  }
}

/** Files of one outcome. */
interface ResultFiles {
  /** Stores a file; undefined when that fails, and from then on no further file is tried. */
  keep(
    content: string | Uint8Array,
    about: { readonly name: string; readonly mimeType: string },
  ): Promise<ArtifactRef | undefined>
  /** What failed: a store, or the quota of the owner. */
  readonly unavailable: 'artifacts' | 'database' | 'quota' | undefined
}

interface ResultFilesOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly holder: Holder
  readonly owner: { readonly tenant: string; readonly principal: string }
  readonly maxBytes: number
  readonly signal: AbortSignal
  readonly failed: (error: unknown) => void
}

function resultFiles({ artifacts, holder, owner, maxBytes, signal, failed }: ResultFilesOptions): ResultFiles {
  /** The output of a chain is also that of its last step: equal texts share one file. */
  const texts = new Map<string, ArtifactRef>()
  let unavailable: ResultFiles['unavailable']
  return {
    async keep(content, about) {
      const known = typeof content === 'string' ? texts.get(content) : undefined
      if (known !== undefined || unavailable !== undefined) return known
      try {
        const { tenant, principal } = owner
        const whose = { tenant, principal, holder, ...about }
        const kept = await artifacts.keep(Buffer.from(content), whose, { maxBytes, signal })
        if (typeof content === 'string') texts.set(content, kept)
        return kept
      } catch (error) {
        unavailable = isOverQuota(error) ? 'quota' : isOfDatabase(error) ? 'database' : 'artifacts'
        failed(error)
        return undefined
      }
    },
    get unavailable() {
      return unavailable
    },
  }
}

function isOfDatabase(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE' && !areArtifactsUnavailable(error)
}

interface CutOptions {
  readonly parts: readonly Part[]
  /** The size of the whole result. */
  readonly bytes: number
  readonly most: number
  readonly characters: number
  /** Whether the quota of its owner is used up. */
  readonly overQuota?: boolean
}

/**
 * Truncates an outcome that cannot be stored: its large parts keep only a preview, with an error. A call that had
 * succeeded fails, because a reader must not take this for the tool's output; any other status stays.
 */
function cutDown(
  draft: DraftResult | DraftChain,
  { parts, bytes, most, characters, overQuota = false }: CutOptions,
): Result | ChainResult {
  for (const part of parts) takeOut(part, undefined, characters)
  const why = overQuota
    ? 'the quota for stored files of its caller or tenant is used up, and without a file'
    : 'the artifact store is unavailable, and without it'
  const message =
    `The result has ${bytes} bytes, ${why} no more than ${most} are kept. ` +
    'The tool has run; of what it gave, the beginning and end are here.'
  if (draft.status === 'ok') {
    draft.status = 'failed'
    draft.error = errorOf(new ToolError('RESULT_TOO_LARGE', message, { stage: 'record' }))
  } else if ('warnings' in draft) draft.warnings.push({ code: 'RESULT_TOO_LARGE', message })
  return Buffer.byteLength(JSON.stringify(draft)) <= most ? draft : bare(draft)
}

function errorOf({ code, message, stage, retryable, effect }: ToolError): ErrorInfo {
  return { code, message, stage, retryable, effect }
}

/** The status of the call alone, for an outcome of very many small parts. */
function bare(outcome: Result | ChainResult): Result | ChainResult {
  if (!('chainId' in outcome))
    return { ...outcome, output: null, content: [], effects: [], warnings: [], artifacts: [] }
  const steps = outcome.steps.map(({ id, tool, state, durationMs }) => {
    const step = { id, state, output: null, results: [], durationMs }
    return tool === undefined ? step : { ...step, tool }
  })
  return { ...outcome, output: null, steps }
}

interface RestoreOptions {
  readonly artifacts: Pick<Artifacts, 'content'>
  /**
   * The files of this very outcome, by digest: a tool can output what looks like a marker, but not one with a digest of
   * these files.
   */
  readonly files: ReadonlyMap<string, ArtifactRef>
  readonly signal: AbortSignal
}

/**
 * Restores the output of a result whose large parts were offloaded; see `offloadResult`. Marked texts (streams of a
 * program, content, messages of errors) are not restored.
 * - Errors: STORE_UNAVAILABLE when a file no longer exists.
 */
export async function restoreOutput(result: Result, options: RestoreOptions): Promise<Result> {
  const output = await restored(result.output, options)
  if (output !== result.output || result.runtime === undefined || !isObject(output)) return { ...result, output }
  const value = output.value === undefined ? undefined : await restored(output.value, options)
  return value === undefined ? result : { ...result, output: { ...output, value } }
}

async function restored(value: Json, { artifacts, files, signal }: RestoreOptions): Promise<Json> {
  const spilled = isObject(value) && Object.keys(value).length === 1 ? value.spilled : undefined
  if (!isObject(spilled) || typeof spilled.digest !== 'string') return value
  const file = files.get(spilled.digest)
  if (file === undefined || file.id !== spilled.artifact) return value
  const content = await text(await artifacts.content(file.digest, signal))
  if (spilled.mimeType === 'text/plain') return content
  const json: Json = JSON.parse(content)
  return json
}
