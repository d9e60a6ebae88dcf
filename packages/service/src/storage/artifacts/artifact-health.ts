import { ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import type { ArtifactStore } from './artifact-store.ts'
import type { SpooledArtifacts } from './fallback.ts'

/** The configured artifact store; one behind a network brings the spool for when it is unavailable. */
export type Files = ArtifactStore & Partial<Pick<SpooledArtifacts, 'drain'>>

/** What a probe writes; the job that removes files without a row removes it again. */
const probeContent = Buffer.alloc(4_096, 'gantry')

/** Resolves when the artifact store takes a write. */
export async function probeFiles(files: Files, signal: AbortSignal): Promise<void> {
  await files.put(probeContent, { maxBytes: probeContent.length, signal })
}

/** The artifact store, which emits after each write whether the dependency worked. */
export function reportingFiles(files: Files, bus: Bus): Files {
  const writing = { dependency: 'artifacts', operation: 'put' } as const
  return {
    ...files,
    async put(content, options) {
      try {
        const file = await files.put(content, options)
        bus.emit('dependency:worked', writing)
        return file
      } catch (error) {
        if (ToolError.is(error) && error.code === 'STORE_UNAVAILABLE') {
          bus.emit('dependency:failed', { ...writing, reason: error.message })
        }
        throw error
      }
    },
  }
}
