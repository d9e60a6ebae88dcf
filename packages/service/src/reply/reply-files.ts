import { buffer } from 'node:stream/consumers'
import type { ChainResult, Result } from '@gantry/contract'
import type { ReplyFile } from '../brokers/codecs/codec.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'

/** What travels with a reply; larger files, and those beyond, are fetched by whoever wants them. */
const mostInline = 262_144
const mostTogether = 1_048_576

/** The files that a call attached, with the content of small ones. */
export async function replyFiles(
  outcome: Result | ChainResult,
  tenant: string,
  artifacts: Pick<Artifacts, 'open'>,
): Promise<readonly ReplyFile[]> {
  const effects = 'effects' in outcome ? outcome.effects : []
  let room = mostTogether
  const files: ReplyFile[] = []
  for (const effect of effects) {
    if (effect.kind !== 'file') continue
    const { id, name, mimeType, bytes, digest } = effect.artifact
    const file = { name, mimeType, bytes, digest, artifact: id }
    if (bytes > mostInline || bytes > room) {
      files.push(file)
      continue
    }
    room -= bytes
    const { content } = await artifacts.open(id, tenant, undefined, AbortSignal.timeout(10_000))
    files.push({ ...file, content: await buffer(content) })
  }
  return files
}

/** The same from one store of artifacts. */
export function replyFilesOf(artifacts: Pick<Artifacts, 'open'>) {
  return (outcome: Result | ChainResult, tenant: string) => replyFiles(outcome, tenant, artifacts)
}
