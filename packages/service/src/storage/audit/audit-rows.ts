import { createHash } from 'node:crypto'

/** A row of the audit record, as it is read and exported; `details` is its text as it stands. */
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

/** A time as text, the same wherever it is read. */
export function utcSql(column: string): string {
  return `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** What is selected to have an AuditRow. */
export const rowColumns = `
  seq, ${utcSql('at')} as at, tenant, principal, call_id as "callId", fence, phase, tool, worker, status, code, config,
  details`

/** The last number that was given out, as far as we count: rows behind it were put there by somebody. */
export const lastNumberSql = `(
  select least(coalesce(pg_sequence_last_value('audit_seq_seq'), 0), ${Number.MAX_SAFE_INTEGER}))`

/** The first column of what is hashed, for a day on which there are more columns. */
const format = 1

/**
 * The digest of a row in SQL, for sealing, where the rows are. It is over the binary form that PostgreSQL gives a row: for
 * each column the number of its type, its length in bytes or -1 for null, and its bytes, so that no two rows have the
 * same one; it takes a third of the time that a text does. Who verifies does not ask the database for it, which could
 * be made to lie, but uses `digestOf`.
 */
export const digestSql = `sha256(record_send(row(${format}, seq, at, fence, tenant, principal, call_id, phase, tool, worker,
  status, code, config, details)))`

/** The same digest of a row that was read. */
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

// The numbers of types, which are the same in every PostgreSQL.
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

/** PostgreSQL counts from the year 2000. */
const epoch = BigInt(Date.UTC(2000, 0)) * 1_000n

/** A time that no service wrote becomes a null, which no row that was sealed has. */
function timeColumn(at: string): Buffer {
  const micros = microsecondsOf(at)
  return micros === 'none' ? column(timestamptz, -1, 0) : int8Column(BigInt(micros) - epoch, timestamptz)
}

const timeForm = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})Z$/

/** Since 1970; of what is no time that a service wrote, a word that no digest was ever made of. */
export function microsecondsOf(at: string): string {
  const [, seconds = '', rest = ''] = timeForm.exec(at) ?? []
  const ms = Date.parse(`${seconds}Z`)
  return Number.isNaN(ms) ? 'none' : String(BigInt(ms) * 1_000n + BigInt(rest))
}
