import { text } from 'node:stream/consumers'
import type { ArtifactRef, Json, Result } from '@gantry/contract'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { isObject } from './offload-part.ts'

export interface RestoreOptions {
  readonly artifacts: Pick<Artifacts, 'content'>
  /** The files of this very outcome, by digest: a tool can write what looks like a marker, but not of what it has no file. */
  readonly files: ReadonlyMap<string, ArtifactRef>
  readonly signal: AbortSignal
}

/**
 * A result with its output as the tool gave it, where that was taken out because it was large; see `govern`. What stands
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
