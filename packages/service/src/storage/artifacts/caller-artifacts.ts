import { buffer } from 'node:stream/consumers'
import { type Identity, ToolError } from '@gantry/contract'
import type { ArtifactInfo, Artifacts as CallerArtifacts } from '@gantry/core'
import type { Database } from '../databases/database.ts'
import { cursorTime, pageOf, readCursor } from '../page-cursor.ts'
import { seenSql, seenValues } from '../reader.ts'
import { removeUnnamed } from '../retention.ts'
import type { Artifacts } from './artifact-records.ts'
import type { ArtifactStore } from './artifact-store.ts'

export interface CallerArtifactsPorts {
  readonly database: Database
  readonly store: ArtifactStore
  readonly artifacts: Artifacts
  /** Size limit of one file, read at each put. */
  readonly maxBytes: () => number
}

/** Artifacts as tools see them: those of the caller's tenant, of calls that are visible to the caller. */
export function callerArtifacts({ database, store, artifacts, maxBytes }: CallerArtifactsPorts): CallerArtifacts {
  const find = async (id: string, reader: Identity): Promise<FoundRow | undefined> => {
    if (!/^art_[0-9a-f]{32}$/.test(id)) return undefined
    const [row] = await database
      .asTenant(reader.tenant)
      .query<FoundRow>(findSql, [id, reader.tenant, ...seenValues(reader), reader.principal])
    return row
  }
  const found = async (id: string, reader: Identity): Promise<ArtifactInfo> => {
    const row = await find(id, reader)
    if (row === undefined) throw new ToolError('NOT_FOUND', 'There is no artifact of this id.')
    return infoOf(row)
  }
  return {
    // A file of an inner call belongs to the outer chain or program, which alone has a row and a retention.
    put: ({ content, ...about }, { identity, callId: id, fence = 1 }, signal) =>
      artifacts.keep(
        content,
        {
          tenant: identity.tenant,
          principal: identity.principal,
          holder: { callId: id.split('.', 1)[0] ?? id, fence },
          ...about,
        },
        { maxBytes: maxBytes(), signal },
      ),
    info: (id, reader) => found(id, reader),
    async read(id, reader, range, signal) {
      const artifact = await found(id, reader)
      const { content } = await artifacts.open(id, reader, range, signal)
      return { artifact, content: await buffer(content) }
    },
    async list({ prefix = '', cursor, limit }, reader) {
      const { at, id } = readCursor(cursor)
      if (prefix.includes('\0') || !prefix.isWellFormed()) return { items: [] }
      const values = [reader.tenant, at, id, limit + 1, prefix, ...seenValues(reader)]
      const rows = await database.asTenant(reader.tenant).query<FoundRow & { place: string }>(listSql, values)
      return pageOf(rows, limit, { itemOf: infoOf, idOf: (row) => row.id })
    },
    async remove(id, reader) {
      const row = await find(id, reader)
      if (row === undefined) return false
      if (!row.own)
        throw new ToolError(
          'DENIED',
          'Only the principal that stored a file may remove it, and not while a call needs it.',
        )
      return database.transaction(async (queries) => {
        const gone = await queries.query<{ digest: string }>(removeSql, [id, reader.tenant])
        await removeUnnamed(
          queries,
          store,
          gone.map(({ digest }) => digest),
        )
        return gone.length > 0
      })
    },
  }
}

type FoundRow = {
  id: string
  name: string
  mime_type: string
  bytes: number
  digest: string
  created_at: Date
  own?: boolean
}

function infoOf({ id, name, mime_type: mimeType, bytes, digest, created_at: createdAt }: FoundRow): ArtifactInfo {
  return { id, name, mimeType, bytes, digest, createdAt: createdAt.toISOString() }
}

/** Condition on calls that are visible to the reader. */
const seen = (beginnings: string, principal: string): string => `(${beginnings}::text is null or exists (
    select from calls c where c.call_id = a.call_id and c.tenant = a.tenant and ${seenSql(beginnings, principal)}
  ))`

/** `own` excludes payloads, which have fence 0, and outcomes, which a result names: neither can be removed. */
const findSql = `
  select id, name, mime_type, bytes, digest, created_at,
    fence > 0
      and exists (select from calls c where c.call_id = a.call_id and c.principal = $5::text)
      and not exists (select from results r where r.call_id = a.call_id and r.result_ref = a.digest) as own
  from artifacts a
  where id = $1 and tenant = $2 and ${seen('$3', '$4')}`

const listSql = `
  select id, name, mime_type, bytes, digest, created_at,
    ${cursorTime('created_at')} as place
  from artifacts a
  where tenant = $1 and fence > 0 and (created_at, id) < ($2::timestamptz, $3::text)
    and starts_with(name, $5::text) and ${seen('$6', '$7')}
  order by created_at desc, id desc
  limit $4`

const removeSql = 'delete from artifacts where id = $1 and tenant = $2 returning digest'
