import { createHash, createHmac, type Hash, type Hmac, hash } from 'node:crypto'
import { createRedactor } from '@gantry/core/internal/json/redact'
import { type Queries, storable } from '../databases/database.ts'

/** An entry of the audit log, as it is read and exported; `details` is unparsed text. */
export type AuditRow = {
  readonly seq: number
  /** In UTC, with microseconds. */
  readonly at: string
  readonly tenant: string
  readonly principal: string
  readonly callId: string
  readonly fence: number
  readonly phase: string
  readonly tool: string
  readonly worker: string | null
  readonly status: string | null
  readonly code: string | null
  readonly config: string | null
  readonly details: string | null
}

/** SQL for a time as text, independent of the time zone of the connection. */
export function utcSql(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** The select list of an AuditRow. */
export const rowColumns = `
  seq, ${utcSql('at')} as at, tenant, principal, call_id as "callId", fence, phase, tool, worker, status, code, config,
  details`

/** The last number of the sequence; entries above it were not written by the service. */
export const lastNumberSql = `(
  select least(coalesce(pg_sequence_last_value('audit_seq_seq'), 0), ${Number.MAX_SAFE_INTEGER}))`

/** Version of the hashed format, in case columns are added. */
const format = 1

/**
 * The digest of a row in SQL, for sealing, where the rows are. It is over the binary form that PostgreSQL gives a row:
 * for each column the number of its type, its length in bytes or -1 for null, and its bytes, so that no two rows have
 * the same one; it takes a third of the time that a text does. A verifier computes `digestOf` instead, because the
 * database could be made to lie.
 */
export const digestSql = `sha256(record_send(row(${format}, seq, at, fence, tenant, principal, call_id, phase, tool, worker,
  status, code, config, details)))`

/** The digest of `digestSql`, computed from an entry that was read. */
export function digestOf(row: AuditRow): Buffer {
  const { seq, at, fence, tenant, principal, callId, phase, tool, worker, status, code, config, details } = row
  const texts = [tenant, principal, callId, phase, tool, worker, status, code, config, details].map(textColumn)
  const columns = [
    int4Column(format),
    int8Column(BigInt.asIntN(64, BigInt(seq)), int8),
    timeColumn(at),
    int4Column(fence),
    ...texts,
  ]
  const count = Buffer.alloc(4)
  count.writeInt32BE(columns.length)
  return createHash('sha256')
    .update(Buffer.concat([count, ...columns]))
    .digest()
}

// Type OIDs, which are the same in every PostgreSQL.
const int8 = 20
const int4 = 23
const text = 25
const timestamptz = 1184

function column(type: number, length: number, bytes: number): Buffer {
  const made = Buffer.alloc(8 + bytes)
  made.writeInt32BE(type)
  made.writeInt32BE(length, 4)
  return made
}

function int4Column(value: number): Buffer {
  const made = column(int4, 4, 4)
  made.writeInt32BE(value, 8)
  return made
}

function int8Column(value: bigint, type: number): Buffer {
  const made = column(type, 8, 8)
  made.writeBigInt64BE(value, 8)
  return made
}

function textColumn(value: string | null): Buffer {
  if (value === null) return column(text, -1, 0)
  const length = Buffer.byteLength(value)
  const made = column(text, length, length)
  made.write(value, 8)
  return made
}

/** PostgreSQL's epoch is the year 2000. */
const epoch = BigInt(Date.UTC(2000, 0)) * 1_000n

/** An invalid time becomes null, which no sealed entry has. */
function timeColumn(at: string): Buffer {
  const micros = microsecondsOf(at)
  return micros === 'none' ? column(timestamptz, -1, 0) : int8Column(BigInt(micros) - epoch, timestamptz)
}

const timeForm = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z$/

/** Microseconds since 1970; for an invalid time a text that no valid digest was computed from. */
function microsecondsOf(at: string): string {
  const [, seconds = '', rest = ''] = timeForm.exec(at) ?? []
  const ms = Date.parse(`${seconds}Z`)
  return Number.isNaN(ms) ? 'none' : String(BigInt(ms) * 1_000n + BigInt(rest))
}

/** A seal as it is read and exported. */
export type Seal = {
  readonly n: number
  /** The hash of the seal before; zeros for the first. */
  readonly prev: string
  /** It covers the entries after this number, up to and including `uptoSeq`. */
  readonly afterSeq: number
  readonly uptoSeq: number
  readonly seqs: readonly number[]
  /** The digests of those entries, concatenated, in hex. */
  readonly digests: string
  /** In UTC, with microseconds. */
  readonly sealedAt: string
  /** The key of the hash; null for a plain hash. */
  readonly keyId: string | null
  readonly hash: string
}

/** `prev` of the first seal. */
export const noHash = '0'.repeat(64)

/** The secret of seals, so that write access to the database is not enough to forge one. */
export interface SealKey {
  readonly id: string
  readonly secret: string
}

export function sealKey(secret: string): SealKey {
  return { id: createHmac('sha256', secret).update('gantry audit key').digest('hex').slice(0, 16), secret }
}

/** The hash of a seal: SHA-256, or HMAC-SHA-256 with the key that `keyId` names. */
export function hashOf(seal: Omit<Seal, 'hash'>, key: SealKey | undefined): string {
  const { n, prev, afterSeq, uptoSeq, seqs, digests, sealedAt, keyId } = seal
  const hash: Hash | Hmac = key === undefined ? createHash('sha256') : createHmac('sha256', key.secret)
  const head = ['gantry audit seal 1', n, prev, afterSeq, uptoSeq, microsecondsOf(sealedAt), keyId ?? '-']
  return hash.update(`${head.join(';')};${seqs.join(',')};${digests}`).digest('hex')
}

/** Characters that JSON does not escape and that terminals or other readers may interpret. */
const unsafe = /[\u007f-\u009f\u2028\u2029]/g

const members = {
  row: [
    'kind',
    'seq',
    'at',
    'tenant',
    'principal',
    'callId',
    'fence',
    'phase',
    'tool',
    'worker',
    'status',
    'code',
    'config',
    'details',
  ],
  seal: ['kind', 'n', 'prev', 'afterSeq', 'uptoSeq', 'seqs', 'digests', 'sealedAt', 'keyId', 'hash'],
  stray: ['kind', 'seq'],
} as const

/**
 * The canonical line of an entry in an export, without its line end: only known members, always in the same order, so
 * that any other spelling is found by comparison.
 */
export function lineOf(entry: AuditEntry): string {
  const text = JSON.stringify(entry, [...members[entry.kind]])
  return text.replace(unsafe, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** An administrator's action: a key made, a policy changed, an approval decided, a call cancelled. */
export interface AuditNote {
  readonly tenant: string
  readonly principal: string
  /** The action, such as `keys.revoke`. */
  readonly action: string
  /** The id of the object; of a call when there is one, so that the entry is found with the call. */
  readonly target: string
  /** Further details, as JSON; members with secret names are redacted, with length and digest. */
  readonly details?: { readonly [name: string]: unknown }
}

const longestText = 500
const longestDetails = 8_192
const redactor = createRedactor()

/**
 * Adds an entry to the audit log. Call it with the queries of the action's transaction, so that neither is committed
 * without the other.
 * - Errors: the database's; then an action that is recorded beforehand must not be done.
 */
export async function noteAudit(queries: Queries, note: AuditNote): Promise<void> {
  const { tenant, principal, action, target, details } = note
  const texts = [tenant, principal, target, action].map((text) => storable(text.slice(0, longestText)))
  await queries.query(noteSql, [...texts, details === undefined ? null : detailsOf(details)])
}

function detailsOf(details: object): string {
  const text = storable(JSON.stringify(redactor.value(JSON.parse(JSON.stringify(details)))))
  return text.length <= longestDetails ? text : JSON.stringify({ omitted: text.length, sha256: hash('sha256', text) })
}

const noteSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, details)
  values ($1, $2, $3, 0, 'admin', $4, $5)`

/**
 * One line of the whole record: a seal comes before its rows, and rows that have none yet come last. Behind them are
 * the numbers, as text, of rows that the service did not write, because the sequence never gave out such a number.
 */
export type AuditEntry =
  | ({ readonly kind: 'seal' } & Seal)
  | ({ readonly kind: 'row' } & AuditRow)
  | { readonly kind: 'stray'; readonly seq: string }

const lowest = Number.MIN_SAFE_INTEGER
const mostSeals = 20
const mostRows = 2_000
const mostUnsequenced = 1_000

/**
 * The whole audit log of all tenants with its seals, oldest first, in pieces that are read on demand.
 * A seal and its rows are read by one statement, so that neither the sealer nor the retention come between; only when
 * many foreign rows are among them are the rest read by further statements.
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
    const seals: readonly Seal[] = JSON.parse(page?.seals ?? '[]')
    read = JSON.parse(page?.rows ?? '[]')
    next = 0
    const last = seals.at(-1)?.uptoSeq ?? null
    for (const seal of seals) {
      yield { kind: 'seal', ...seal }
      n = seal.n
      yield* rowsUpto(seal.uptoSeq, last)
    }
    if (seals.length > 0) continue
    // The last page; a seal that is made from here on covers entries that were returned as unsealed.
    if (read.length > 0) yield* rowsUpto(Number.POSITIVE_INFINITY, null)
    break
  }
  for (const { seq } of await queries.query<{ seq: string }>(unsequencedSql, [lowest, mostUnsequenced]))
    yield { kind: 'stray', seq }
}

/** SQL for a row of `audit_seals` as a `Seal`. */
export const sealJsonSql = `
  json_build_object('n', n, 'prev', prev, 'afterSeq', after_seq, 'uptoSeq', upto_seq, 'seqs', seqs,
    'digests', encode(digests, 'hex'), 'sealedAt', ${utcSql('sealed_at')}, 'keyId', key_id, 'hash', hash)`

const rowsSql = `
  select ${rowColumns} from audit where seq > $1 and seq <= coalesce($2, ${lastNumberSql}) order by seq limit $3`

const unsequencedSql = `
  select seq::text as seq from audit
  where seq <= $1 or seq > greatest(${lastNumberSql}, (select upto_seq from audit_seals order by n desc limit 1))
  order by audit.seq limit $2`

/**
 * $1: the last seal that was read; $2: the last row; $3: seals at a time; $4: rows at a time. Together the seals have
 * few rows; more rows than those are foreign, and they are read before the next seals.
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
