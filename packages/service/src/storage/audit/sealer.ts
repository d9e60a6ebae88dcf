import { ToolError } from '@gantry/contract'
import type { Database, Queries } from '../databases/database.ts'
import {
  digestSql,
  hashOf,
  lastNumberSql,
  noHash,
  noteAudit,
  type Seal,
  type SealKey,
  sealJsonSql,
  utcSql,
} from './entries.ts'
import { proofOf, retireAction, retiringPrincipal } from './verify.ts'

/** Seals the audit log of all processes. */
export interface Sealer {
  /**
   * Seals all entries that can be sealed now. Called every second, it seals an entry a second or two after its commit.
   * - Concurrency: any number of processes; one seals at a time, and the others skip this interval.
   * - Errors: the database's; what was sealed before stays sealed.
   */
  seal(): Promise<Sealed>
}

interface Sealed {
  readonly rows: number
  /** The last seal that was made, as `number:hash`. */
  readonly head?: string
}

interface SealerOptions {
  readonly database: Pick<Database, 'query' | 'transaction'>
  /** The key of seals; without one, any writer of the table can make a valid seal. */
  readonly key?: SealKey | undefined
}

/** Limit of entries per seal, so that reading one takes milliseconds. */
const mostRows = 1_000
/** Limit of bytes of details per seal, beyond the first entry. */
const mostBytes = 1_000_000
/** Limit of seals per call; a backlog is sealed by the next calls. */
const mostSeals = 50
const lockKey = 4_721_906_116

/** A snapshot: the last visible entry, and the open transactions that may have taken a lower number. */
interface Look {
  readonly upto: number
  readonly writers: readonly string[]
}

/**
 * Numbers are given out in order but rows become visible when their transactions commit, and some never do. So a number
 * that is missing may only be passed over once no transaction can fill it any more.
 *
 * Every transaction that adds to the record holds a lock on the table from before it takes its first number until it
 * ends. So a look, whose last row is R and at which transactions W held such a lock, is *settled* as soon as none of W
 * holds one: every row up to R that will ever be is visible from then on. A look without W is settled at once; one that
 * is not is kept until it is, and only then the next one takes its place.
 */
export function createSealer({ database, key }: SealerOptions): Sealer {
  let waiting: Look | undefined
  /** The number up to which all entries are visible for good; 0 when it is not known yet. */
  const settle = (look: Look): number => {
    const before = waiting
    if (look.writers.length === 0) {
      waiting = undefined
      return look.upto
    }
    if (before?.writers.some((writer) => look.writers.includes(writer)) === true) return 0
    waiting = look
    return before?.upto ?? 0
  }
  const sealAll = async (): Promise<Sealed> => {
    const [row] = await database.query<LookRow>(lookSql)
    if (row === undefined) return { rows: 0 }
    const { upto, sealed, writers } = row
    const final = upto === null ? 0 : settle({ upto, writers: JSON.parse(writers) })
    let rows = 0
    let last: Seal | undefined
    for (let seals = 0; seals < mostSeals && final > (last?.uptoSeq ?? sealed ?? 0); seals++) {
      const made = await database.transaction((queries) => sealNext(queries, final, key))
      if (made === undefined) break
      last = made
      rows += made.seqs.length
    }
    return last === undefined ? { rows } : { rows, head: `${last.n}:${last.hash}` }
  }
  let turn: Promise<unknown> = Promise.resolve()
  return {
    seal() {
      // One look at a time: an older one would miss writers that started after it.
      const sealing = turn.then(sealAll)
      turn = sealing.catch(() => undefined)
      return sealing
    },
  }
}

/** Makes the next seal; undefined when there is nothing to seal, or another process is sealing. */
async function sealNext(queries: Queries, final: number, key: SealKey | undefined): Promise<Seal | undefined> {
  const [lock] = await queries.query<{ mine: boolean }>('select pg_try_advisory_xact_lock($1) as mine', [lockKey])
  if (lock?.mine !== true) return undefined
  const [next] = await queries.query<NextRow>(nextSql, [final, mostRows, mostBytes])
  if (next === undefined || next.seqs === null || next.digests === null) return undefined
  const { n, prev, after, seqs, digests, at, rest } = next
  const list: number[] = JSON.parse(seqs)
  const plain: Omit<Seal, 'hash'> = {
    n,
    prev,
    afterSeq: after,
    seqs: list,
    digests,
    sealedAt: at,
    keyId: key?.id ?? null,
    uptoSeq: rest ? (list.at(-1) ?? after) : final,
  }
  const hash = hashOf(plain, key)
  await queries.query(insertSql, [n, prev, after, plain.uptoSeq, seqs, digests, at, plain.keyId, hash])
  return { ...plain, hash }
}

type LookRow = { upto: number | null; sealed: number | null; writers: string }

type NextRow = {
  n: number
  prev: string
  after: number
  seqs: string | null
  digests: string | null
  at: string
  rest: boolean
}

// The statement sees what was committed before it began, and reads the locks after that.
const lookSql = `
  select (select max(seq) from audit where seq <= ${lastNumberSql}) as upto,
    (select upto_seq from audit_seals order by n desc limit 1) as sealed,
    (
      select coalesce(json_agg(distinct virtualtransaction), '[]')::text from pg_locks
      where locktype = 'relation' and mode = 'RowExclusiveLock' and relation = 'audit'::regclass
        and database = (select oid from pg_database where datname = current_database())
    ) as writers`

// A statement of its own after the lock was taken, so that it sees the seal of the lock's previous owner.
const nextSql = `
  with last as materialized (
    select n, hash, upto_seq from audit_seals order by n desc limit 1
  ), place as materialized (
    select coalesce((select n from last), 0) + 1 as n, coalesce((select hash from last), '${noHash}') as prev,
      coalesce((select upto_seq from last), 0) as after
  ), rows as materialized (
    select seq, ${digestSql} as digest, row_number() over (order by seq) as place,
      sum(octet_length(details)) over (order by seq) as bytes
    from (
      select * from audit where seq > (select after from place) and seq <= $1 order by seq limit $2 + 1
    ) near
  ), taken as materialized (
    select seq, digest from rows where place <= $2 and (place = 1 or coalesce(bytes, 0) <= $3)
  )
  select n, prev, after, ${utcSql('now()')} as at,
    (select json_agg(seq order by seq)::text from taken) as seqs,
    (select encode(string_agg(digest, ''::bytea order by seq), 'hex') from taken) as digests,
    (select count(*) from rows) > (select count(*) from taken) as rest
  from place`

const insertSql = `
  insert into audit_seals (n, prev, after_seq, upto_seq, seqs, digests, sealed_at, key_id, hash)
  values ($1, $2, $3, $4, array(select json_array_elements_text($5::json)::bigint), decode($6, 'hex'), $7, $8, $9)`

interface RetireOptions {
  /** How long an entry is kept; at least a day. */
  readonly keepMs: number
  /** Seals at a time. */
  readonly most: number
  /** The first signs the proof that retention removed entries; all verify. Without a key there is no proof. */
  readonly keys: readonly SealKey[]
}

const leastMs = 86_400_000

/**
 * Removes the oldest seals with their entries, once they are older than the retention, and returns the number of
 * entries. Must run within a transaction.
 *
 * With a key, what is removed is proven. The owner of the database can claim that any seal is old, so first the last of
 * them is verified, with the time that stands in its hash; those before it are older.
 * - Errors: INTERNAL for a seal that is not as it was made, or whose key is not known; nothing is removed then, so that
 *   what shows it stays. Otherwise the database's.
 */
export async function retireAudit(queries: Queries, { keepMs, most, keys }: RetireOptions): Promise<number> {
  const [key] = keys
  if (key === undefined) return retire(queries, keepMs, most)
  await queries.query('select pg_advisory_xact_lock($1)', [retireLockKey])
  const cutoff = Date.now() - Math.max(keepMs, leastMs)
  const [found] = await queries.query<Expired>(expiredSql, [keepMs, most, new Date(cutoff).toISOString()])
  if (found === undefined || found.last === null) return 0
  const last: Seal = JSON.parse(found.last)
  const fault = faultOf(last, keys, cutoff)
  if (fault !== undefined) throw new ToolError('INTERNAL', `No audit entry was removed: ${fault}.`)
  const rows = await retire(queries, keepMs, found.seals)
  const retirement = { seal: last.n, hash: last.hash, uptoSeq: last.uptoSeq }
  await noteAudit(queries, {
    tenant: '',
    principal: retiringPrincipal,
    action: retireAction,
    target: '',
    details: { ...retirement, keyId: key.id, proof: proofOf(retirement, key) },
  })
  return rows
}

async function retire(queries: Queries, keepMs: number, most: number): Promise<number> {
  const [retired] = await queries.query<{ rows: number }>('select retire_audit($1, $2) as rows', [keepMs, most])
  return retired?.rows ?? 0
}

/** A seal without a key from before the first key is valid too: a forged one would break the chain behind it. */
function faultOf(seal: Seal, keys: readonly SealKey[], cutoff: number): string | undefined {
  const key = keys.find(({ id }) => id === seal.keyId)
  if (seal.keyId !== null && key === undefined) {
    return `seal ${seal.n} was made with a key that is not known here, ${seal.keyId}; name it in service.auditSecrets again`
  }
  if (hashOf(seal, key) !== seal.hash) return `seal ${seal.n} was changed; see gantry audit verify`
  return Date.parse(seal.sealedAt) < cutoff ? undefined : `seal ${seal.n} is not old enough`
}

/** The lock that `retire_audit` takes, so that no other process retires in between. */
const retireLockKey = 4_721_906_115

type Expired = { seals: number; last: string | null }

/** $1: how long entries are kept; $2: the limit of seals; $3: the latest time of a seal, by this machine's clock. */
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
