import { text } from 'node:stream/consumers'
import { type ArtifactRef, type ChainResult, type ErrorInfo, type Json, type Result, ToolError } from '@gantry/contract'
import { type Artifacts, isArtifactsAway, isOverQuota } from '../../storage/artifacts/artifact-records.ts'
import type { AdmittedCall, Ending, Holder } from '../../storage/calls/call-store.ts'
import { type DraftChain, type DraftResult, draftOf, isObject, type Part, takeOut } from './offload-part.ts'
import { partsOf } from './result-parts.ts'

export interface ResultLimits {
  /** Up to this many bytes of JSON text a result is kept as it is. */
  readonly inlineBytes: number
  /** Up to this many it is kept as it is while the artifact store is away. */
  readonly inlineMaxBytes: number
  /** Of one file. */
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
  /** When it aborts, or a minute has passed, the artifact store counts as away. */
  readonly signal: AbortSignal
  /** Told why a file could not be kept. */
  readonly failed?: (error: unknown) => void
}

const storeMs = 60_000

/** An outcome as it is to be recorded: with its text, or with the digest of the file that holds it. */
type OffloadedResult = Pick<Ending, 'result' | 'text' | 'ref' | 'bytes'>

/**
 * Makes an outcome small enough for a row. What is large goes into artifacts, the largest part first, and leaves its
 * beginning and end behind; what is too large even then is kept as one file. Nothing is lost while there is a place for
 * it: without the artifact store the result stays as it is up to a limit, and without the database whatever its size,
 * because then it waits on disk. Only beyond that does the call fail with RESULT_TOO_LARGE and what can be shown.
 * - It never rejects: an outcome that could not be recorded would be none.
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
  while (small.bytes > inlineBytes && parts.length > 0 && files.away === undefined) {
    await spill(parts, small.bytes - inlineBytes, files, characters)
    small = written(draft as Result | ChainResult)
  }
  if (small.bytes <= inlineBytes) return small
  const { result, text, bytes } = small
  const file = await files.keep(text, { name: 'result.json', mimeType: 'application/json' })
  if (file !== undefined) return { result, ref: file.digest, bytes }
  // Rows are no way around the quota.
  const overQuota = files.away === 'quota'
  const most = overQuota ? inlineBytes : inlineMaxBytes
  if (bytes <= most || files.away === 'database') return small
  return written(cutDown(draft, { parts, bytes: whole.bytes, most, characters, overQuota }))
}

/** One by one, because the limits may be all the settings of a service, and copying those takes longer than a call. */
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

/** Previews share half of the room, however many there are. */
function previewCharacters(parts: number, inlineBytes: number): number {
  const share = Math.floor(inlineBytes / 2 / Math.max(1, parts))
  return Math.max(leastCharacters, Math.min(mostCharacters, share))
}

/** What stands in the place of a part takes about this, besides its preview. */
const markerBytes = 512

/** Takes parts out, first to last, until about so many bytes are gone; those that are left stay in the list. */
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
  /** Keeps a file; undefined when that cannot be done, and from then on nothing is tried any more. */
  keep(
    content: string | Uint8Array,
    about: { readonly name: string; readonly mimeType: string },
  ): Promise<ArtifactRef | undefined>
  /** What failed: a store, or the owner has no room for more files. */
  readonly away: 'artifacts' | 'database' | 'quota' | undefined
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
  /** What a chain gives is also what its last step gave: the same text is one file. */
  const texts = new Map<string, ArtifactRef>()
  let away: ResultFiles['away']
  return {
    async keep(content, about) {
      const known = typeof content === 'string' ? texts.get(content) : undefined
      if (known !== undefined || away !== undefined) return known
      try {
        const { tenant, principal } = owner
        const whose = { tenant, principal, holder, ...about }
        const kept = await artifacts.keep(Buffer.from(content), whose, { maxBytes, signal })
        if (typeof content === 'string') texts.set(content, kept)
        return kept
      } catch (error) {
        away = isOverQuota(error) ? 'quota' : isOfDatabase(error) ? 'database' : 'artifacts'
        failed(error)
        return undefined
      }
    },
    get away() {
      return away
    },
  }
}

function isOfDatabase(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE' && !isArtifactsAway(error)
}

interface CutOptions {
  readonly parts: readonly Part[]
  /** Of the whole result. */
  readonly bytes: number
  readonly most: number
  readonly characters: number
  /** Its owner has no room for files. */
  readonly overQuota?: boolean
}

/**
 * Cuts an outcome that nothing can keep as a whole: of its large parts only the beginning and end stay, and it says so.
 * A call that had succeeded fails, because whoever reads it must not take this for what the tool gave; one that had ended
 * otherwise ended so.
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
  const cut = draft as Result | ChainResult
  return Buffer.byteLength(JSON.stringify(cut)) <= most ? cut : bare(cut)
}

function errorOf({ code, message, stage, retryable, effect }: ToolError): ErrorInfo {
  return { code, message, stage, retryable, effect }
}

/** How the call ended and nothing else, for an outcome of very many small parts. */
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
  /** The files of this very outcome, by digest: a tool can write what looks like a marker, but not of what it has no file. */
  readonly files: ReadonlyMap<string, ArtifactRef>
  readonly signal: AbortSignal
}

/**
 * A result with its output as the tool gave it, where that was taken out because it was large; see `offloadResult`. What stands
 * as a text in the place of a text (what a program wrote, content, messages of errors) stays as it is.
 * - Errors: STORE_UNAVAILABLE when a file is gone.
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
  return spilled.mimeType === 'text/plain' ? content : (JSON.parse(content) as Json)
}
