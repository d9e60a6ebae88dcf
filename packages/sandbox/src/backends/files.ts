import { createHash } from 'node:crypto'
import type { SandboxFile } from '@gantry/contract'
import { mediaType } from '@gantry/core/internal/artifacts/media-type'
import type { BackendContext } from '@gantry/core/internal/backends/backend'
import { outputFile } from './output-text.ts'

/** A file of more bytes is kept outside the result. */
const mostInline = 16_384

/** Pictures, sounds, documents and tables are for whoever shows or opens them, however small they are. */
const apart = /^(?:image|audio|video)\/|^application\/(?:pdf|vnd\.)|^text\/(?:csv|tab-separated-values)$/

/**
 * Files that a program made, as the output names them: in it, or by the id of the artifact that the host keeps. The same
 * content of the same kind is kept once. What could not be kept stays in the output, and the result has a warning.
 */
export async function outputFiles(
  files: readonly (readonly [string, Uint8Array])[],
  { keepsFiles, attach }: Pick<BackendContext, 'keepsFiles' | 'attach'>,
): Promise<{ [path: string]: SandboxFile }> {
  const kept = new Map<string, Promise<SandboxFile>>()
  const listed: { [path: string]: SandboxFile } = Object.create(null)
  for (const [path, content] of files) {
    const mimeType = mediaType(path, content)
    if (!keepsFiles || (content.length <= mostInline && !apart.test(mimeType))) listed[path] = outputFile(content)
    else {
      const key = `${mimeType} ${createHash('sha256').update(content).digest('base64')}`
      const keeping = kept.get(key) ?? keep(path, content, mimeType, attach)
      kept.set(key, keeping)
      listed[path] = await keeping
    }
  }
  return listed
}

async function keep(
  name: string,
  content: Uint8Array,
  mimeType: string,
  attach: BackendContext['attach'],
): Promise<SandboxFile> {
  try {
    return { artifact: (await attach({ name, content, mimeType })).id }
  } catch {
    return outputFile(content)
  }
}
