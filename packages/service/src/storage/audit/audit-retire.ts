import { ToolError } from '@gantry/contract'
import type { Queries } from '../databases/database.ts'
import { noteAudit } from './audit-notes.ts'
import { sealJsonSql } from './audit-reader.ts'
import { proofOf, retireAction, retiringPrincipal } from './retirement.ts'
import { hashOf, type Seal, type SealKey } from './seals.ts'

export interface RetireOptions {
  /** How long a row is kept; a day at least, whatever it says. */
  readonly keepMs: number
  /** Seals at a time. */
  readonly most: number
  /** The first proves that the retention removed what is gone, and all of them verify; without one nothing can. */
  readonly keys: readonly SealKey[]
}

const leastMs = 86_400_000

/**
 * Removes the oldest seals with their rows, once they are older than the retention, and answers how many rows went. For the
 * queries of a transaction.
 *
 * With a key, what is removed is proven. Whoever owns the database can say of any seal that it is old, so first the last of
 * them is verified, with the time that stands in its hash; those before it are older.
 * - Errors: INTERNAL for a seal that is not as it was made, or whose key is not known; nothing is removed then, so that what
 *   shows it stays. Otherwise the database's.
 */
export async function retireAudit(queries: Queries, { keepMs, most, keys }: RetireOptions): Promise<number> {
  const [key] = keys
  if (key === undefined) return retire(queries, keepMs, most)
  await queries.query('select pg_advisory_xact_lock($1)', [lockKey])
  const cutoff = Date.now() - Math.max(keepMs, leastMs)
  const [found] = await queries.query<Expired>(expiredSql, [keepMs, most, new Date(cutoff).toISOString()])
  if (found === undefined || found.last === null) return 0
  const last: Seal = JSON.parse(found.last)
  const fault = faultOf(last, keys, cutoff)
  if (fault !== undefined) throw new ToolError('INTERNAL', `Nothing of the audit record is removed: ${fault}.`)
  const rows = await retire(queries, keepMs, found.seals)
  const retirement = { seal: last.n, hash: last.hash, uptoSeq: last.uptoSeq }
  await noteAudit(queries, {
    ...{ tenant: '', principal: retiringPrincipal, action: retireAction, target: '' },
    details: { ...retirement, keyId: key.id, proof: proofOf(retirement, key) },
  })
  return rows
}

async function retire(queries: Queries, keepMs: number, most: number): Promise<number> {
  const [retired] = await queries.query<{ rows: number }>('select retire_audit($1, $2) as rows', [keepMs, most])
  return retired?.rows ?? 0
}

/** One from before there was a key counts too: were it made anew, the seals behind it would not continue it. */
function faultOf(seal: Seal, keys: readonly SealKey[], cutoff: number): string | undefined {
  const key = keys.find(({ id }) => id === seal.keyId)
  if (seal.keyId !== null && key === undefined) {
    return `seal ${seal.n} was made with a key that is not known here, ${seal.keyId}; name it in service.auditSecrets again`
  }
  if (hashOf(seal, key) !== seal.hash) return `seal ${seal.n} was changed; see gantry audit verify`
  return Date.parse(seal.sealedAt) < cutoff ? undefined : `seal ${seal.n} is not old enough`
}

/** The one that `retire_audit` takes, so that nobody else retires in between. */
const lockKey = 4_721_906_115

type Expired = { seals: number; last: string | null }

/** $1: how long rows are kept; $2: seals at a time; $3: the time before which a seal must have been made, by our own clock. */
const expiredSql = `
  with cutoff as materialized (
    select least(now() - greatest($1, ${leastMs}) * interval '1 millisecond', $3::timestamptz) as at
  ), near as materialized (
    select * from audit_seals where n < (select max(n) from audit_seals) order by n limit $2
  ), kept as materialized (
    select min(n) as n from near
    where sealed_at >= (select at from cutoff)
      or exists (select from audit where seq > after_seq and seq <= upto_seq and audit.at >= (select at from cutoff))
  ), gone as materialized (
    select * from near where n < (select n from kept) or (select n from kept) is null
  )
  select (select count(*) from gone) as seals, (select ${sealJsonSql}::text from gone order by n desc limit 1) as last`
