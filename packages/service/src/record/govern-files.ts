import { type ArtifactRef, ToolError } from '@gantry/contract'
import { type Artifacts, isArtifactsAway } from '../records/artifacts.ts'
import type { Holder } from '../stores/call-store.ts'

/** Files of one outcome. */
export interface ResultFiles {
  /** Keeps a file; undefined when that cannot be done, and from then on nothing is tried any more. */
  keep(
    content: string | Uint8Array,
    about: { readonly name: string; readonly mimeType: string },
  ): Promise<ArtifactRef | undefined>
  /** What failed. */
  readonly away: 'artifacts' | 'database' | undefined
}

export interface ResultFilesOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly holder: Holder
  readonly tenant: string
  readonly maxBytes: number
  readonly signal: AbortSignal
  readonly failed: (error: unknown) => void
}

export function resultFiles({ artifacts, holder, tenant, maxBytes, signal, failed }: ResultFilesOptions): ResultFiles {
  /** What a chain gives is also what its last step gave: the same text is one file. */
  const texts = new Map<string, ArtifactRef>()
  let away: ResultFiles['away']
  return {
    async keep(content, about) {
      const known = typeof content === 'string' ? texts.get(content) : undefined
      if (known !== undefined || away !== undefined) return known
      try {
        const kept = await artifacts.keep(Buffer.from(content), { tenant, holder, ...about }, { maxBytes, signal })
        if (typeof content === 'string') texts.set(content, kept)
        return kept
      } catch (error) {
        away = isOfDatabase(error) ? 'database' : 'artifacts'
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
