import { type ArtifactRef, ToolError } from '@gantry/contract'
import { type Artifacts, isArtifactsAway, isOverQuota } from '../../storage/artifacts/artifact-records.ts'
import type { Holder } from '../../storage/calls/call-store.ts'

/** Files of one outcome. */
export interface ResultFiles {
  /** Keeps a file; undefined when that cannot be done, and from then on nothing is tried any more. */
  keep(
    content: string | Uint8Array,
    about: { readonly name: string; readonly mimeType: string },
  ): Promise<ArtifactRef | undefined>
  /** What failed: a store, or the owner has no room for more files. */
  readonly away: 'artifacts' | 'database' | 'quota' | undefined
}

export interface ResultFilesOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly holder: Holder
  readonly owner: { readonly tenant: string; readonly principal: string }
  readonly maxBytes: number
  readonly signal: AbortSignal
  readonly failed: (error: unknown) => void
}

export function resultFiles({ artifacts, holder, owner, maxBytes, signal, failed }: ResultFilesOptions): ResultFiles {
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
