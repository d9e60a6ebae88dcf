import type { ChainResult, Result } from '@gantry/contract'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import type { AdmittedCall, Ending, Holder } from '../../storage/calls/call-store.ts'
import { type ResultFiles, resultFiles } from './offload-files.ts'
import { draftOf, type Part, takeOut } from './offload-part.ts'
import { partsOf } from './offload-parts.ts'
import { cutDown } from './truncate-result.ts'

export interface ResultLimits {
  /** Up to this many bytes of JSON text a result is kept as it is. */
  readonly inlineBytes: number
  /** Up to this many it is kept as it is while the artifact store is away. */
  readonly inlineMaxBytes: number
  /** Of one file. */
  readonly artifactBytes: number
}

export const defaultResultLimits: ResultLimits = {
  inlineBytes: 65_536,
  inlineMaxBytes: 1_048_576,
  artifactBytes: 268_435_456,
}

export interface GovernOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly limits?: Partial<ResultLimits>
  /** When it aborts, or a minute has passed, the artifact store counts as away. */
  readonly signal: AbortSignal
  /** Told why a file could not be kept. */
  readonly failed?: (error: unknown) => void
}

const storeMs = 60_000

/** An outcome as it is to be recorded: with its text, or with the digest of the file that holds it. */
export type Governed = Pick<Ending, 'result' | 'text' | 'ref' | 'bytes'>

/**
 * Makes an outcome small enough for a row. What is large goes into artifacts, the largest part first, and leaves its
 * beginning and end behind; what is too large even then is kept as one file. Nothing is lost while there is a place for
 * it: without the artifact store the result stays as it is up to a limit, and without the database whatever its size,
 * because then it waits on disk. Only beyond that does the call fail with RESULT_TOO_LARGE and what can be shown.
 * - It never rejects: an outcome that could not be recorded would be none.
 */
export async function govern(
  { callId, fence, call }: Holder & { readonly call: Pick<AdmittedCall, 'identity'> },
  outcome: Result | ChainResult,
  options: GovernOptions,
): Promise<Governed> {
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

function written(result: Result | ChainResult): Required<Pick<Governed, 'result' | 'text' | 'bytes'>> {
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
