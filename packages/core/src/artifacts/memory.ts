import { createHash, randomUUID } from 'node:crypto'
import { type Identity, ToolError } from '@gantry/contract'
import type { ArtifactInfo, Artifacts } from './artifact.ts'

export interface MemoryArtifactsOptions {
  /** Most files; 1,000 by default. */
  readonly files?: number
  /** Most bytes of all files together; 64 MiB by default. */
  readonly bytes?: number
  /** Makes the ids, each in the form of a UUID; random when absent. */
  readonly ids?: () => string
  /** Milliseconds since 1970, for the time of a file; the system clock when absent. */
  readonly now?: () => number
}

/** Stores files in the memory of this process. A file beyond the capacity is refused; no other file is evicted. */
export function memoryArtifacts(options: MemoryArtifactsOptions = {}): Artifacts {
  const { files = 1_000, bytes = 67_108_864, ids = randomUUID, now = Date.now } = options
  const kept = new Map<string, StoredArtifact>()
  let used = 0
  const find = (id: string, { tenant }: Identity): StoredArtifact => {
    const found = kept.get(id)
    if (found?.tenant !== tenant) throw new ToolError('NOT_FOUND', 'There is no artifact of this id.')
    return found
  }
  return {
    async put({ name, mimeType, content }, { identity }) {
      if (kept.size >= files || used + content.length > bytes) {
        throw new ToolError(
          'LIMIT_EXCEEDED',
          `The artifact store is full: it keeps ${files} files and ${bytes} bytes in total.`,
        )
      }
      const copy = Uint8Array.from(content)
      const id = `art_${ids().replaceAll('-', '')}`
      const digest = `sha256:${createHash('sha256').update(copy).digest('hex')}`
      const ref = { id, name, mimeType, bytes: copy.length, digest }
      used += copy.length
      const { tenant, principal } = identity
      kept.set(id, { info: { ...ref, createdAt: new Date(now()).toISOString() }, content: copy, tenant, principal })
      return ref
    },
    async info(id, reader) {
      return find(id, reader).info
    },
    async read(id, reader, { start, end }) {
      const { info, content } = find(id, reader)
      return { artifact: info, content: content.slice(start, end) }
    },
    async list({ prefix = '', cursor, limit }, { tenant }) {
      const own = [...kept.values()].reverse().filter((file) => file.tenant === tenant)
      const fitting = own.filter(({ info }) => info.name.startsWith(prefix))
      const after = cursor === undefined ? 0 : fitting.findIndex(({ info }) => info.id === cursor) + 1
      if (cursor !== undefined && after === 0) throw wrongCursor()
      const items = fitting.slice(after, after + limit).map(({ info }) => info)
      const last = items.at(-1)
      return after + limit < fitting.length && last !== undefined ? { items, cursor: last.id } : { items }
    },
    async remove(id, reader) {
      const found = kept.get(id)
      if (found === undefined || found.tenant !== reader.tenant) return false
      if (found.principal !== reader.principal) {
        throw new ToolError('DENIED', 'Only the creator of a file may remove it.')
      }
      kept.delete(id)
      used -= found.content.length
      return true
    },
  }
}

interface StoredArtifact {
  readonly info: ArtifactInfo
  readonly content: Uint8Array
  readonly tenant: string
  readonly principal: string
}

function wrongCursor(): ToolError {
  const message = 'is not a cursor of this list'
  return new ToolError('INPUT_INVALID', `The cursor ${message}; start again without it.`, {
    details: { issues: [{ path: '/cursor', message }] },
  })
}
