import type { Queries } from '../databases/database.ts'
import { type AuditRow, lastNumberSql, rowColumns, utcSql } from './audit-rows.ts'
import type { Seal } from './seals.ts'

/**
 * One line of the whole record: a seal comes before its rows, and rows that have none yet come last. Behind them are the
 * numbers, as text, of rows that nobody can have written in order, because no such number was given out.
 */
export type AuditEntry =
  | ({ readonly kind: 'seal' } & Seal)
  | ({ readonly kind: 'row' } & AuditRow)
  | { readonly kind: 'stray'; readonly seq: string }

const lowest = Number.MIN_SAFE_INTEGER
const mostSeals = 20
const mostRows = 2_000
const mostStrays = 1_000

/**
 * The whole audit record of all tenants with its seals, oldest first, in pieces that are read as they are asked for.
 * A seal and its rows are read by one statement, so that neither the sealer nor the retention come between; only when
 * somebody has put many more among them are the rest read by others.
 */
export async function* readAudit(queries: Queries, signal: AbortSignal): AsyncGenerator<AuditEntry, void> {
  let n = -1
  let seq = lowest
  let read: readonly AuditRow[] = []
  let next = 0
  const rowsUpto = async function* (upto: number, last: number | null): AsyncGenerator<AuditEntry, void> {
    for (;;) {
      for (let row = read[next]; row !== undefined && row.seq <= upto; row = read[++next]) {
        seq = row.seq
        yield { kind: 'row', ...row }
      }
      if (next < read.length || read.length < mostRows) return
      read = await queries.query<AuditRow>(rowsSql, [seq, last, mostRows])
      next = 0
    }
  }
  for (;;) {
    signal.throwIfAborted()
    const [page] = await queries.query<{ seals: string; rows: string }>(pageSql, [n, seq, mostSeals, mostRows])
    const seals = JSON.parse(page?.seals ?? '[]') as Seal[]
    read = JSON.parse(page?.rows ?? '[]')
    next = 0
    const last = seals.at(-1)?.uptoSeq ?? null
    for (const seal of seals) {
      yield { kind: 'seal', ...seal }
      n = seal.n
      yield* rowsUpto(seal.uptoSeq, last)
    }
    if (seals.length > 0) continue
    // The last ones; a seal that is made from here on vouches for rows that were given as unsealed.
    if (read.length > 0) yield* rowsUpto(Number.POSITIVE_INFINITY, null)
    break
  }
  for (const { seq } of await queries.query<{ seq: string }>(straysSql, [lowest, mostStrays]))
    yield { kind: 'stray', seq }
}

/** A seal as `Seal` has it, of a row of `audit_seals`. */
export const sealJsonSql = `
  json_build_object('n', n, 'prev', prev, 'afterSeq', after_seq, 'uptoSeq', upto_seq, 'seqs', seqs,
    'digests', encode(digests, 'hex'), 'sealedAt', ${utcSql('sealed_at')}, 'keyId', key_id, 'hash', hash)`

const rowsSql = `
  select ${rowColumns} from audit where seq > $1 and seq <= coalesce($2, ${lastNumberSql}) order by seq limit $3`

const straysSql = `
  select seq::text as seq from audit
  where seq <= $1 or seq > greatest(${lastNumberSql}, (select upto_seq from audit_seals order by n desc limit 1))
  order by audit.seq limit $2`

/**
 * $1: the last seal that was read; $2: the last row; $3: seals at a time; $4: rows at a time. Together the seals have few
 * rows; when there are more than those, somebody put them there, and they are read before the next seals.
 */
const pageSql = `
  with ahead as materialized (
    select n, upto_seq, seqs, digests, prev, after_seq, sealed_at, key_id, hash,
      sum(cardinality(seqs)) over (order by n) as total
    from (select * from audit_seals where n > $1 order by n limit $3) near
  ), picked as materialized (
    select * from ahead where total <= $4 / 2 or n = (select min(n) from ahead)
  ), found as materialized (
    select ${rowColumns} from audit
    where seq > $2 and seq <= coalesce((select max(upto_seq) from picked), ${lastNumberSql})
    order by seq limit $4
  )
  select
    (
      select coalesce(json_agg(${sealJsonSql} order by n), '[]')::text
      from picked
    ) as seals,
    (select coalesce(json_agg(found order by seq), '[]')::text from found) as rows`
