import { type ArtifactRef, type ChainResult, type Result, ToolError } from '@gantry/contract'
import type { CallViews } from './call-views.ts'
import type { AdmittedCall } from './calls/call-store.ts'
import type { Queries } from './databases/database.ts'
import { type JournalEntry, journalRecords } from './journal.ts'
import { type Reader, tenantOf } from './reader.ts'

/** Everything on record of a call that has ended. */
export interface RecordedCall {
  /** As it was admitted. */
  readonly call: Pick<
    AdmittedCall,
    'callId' | 'kind' | 'identity' | 'tool' | 'digest' | 'payload' | 'payloadRef' | 'payloadBytes' | 'effectKey'
  >
  /** The holder whose outcome it is. */
  readonly fence: number
  readonly outcome: Result | ChainResult
  /** The calls inside of a chain or a program, those of the one that it repeats included. */
  readonly journal: ReadonlyMap<string, JournalEntry>
  /** What the outcome left outside of itself, by digest. */
  readonly files: ReadonlyMap<string, ArtifactRef>
}

/** Reads what is on record. A call that the reader does not see is NOT_FOUND; one that has not ended is INPUT_INVALID. */
export async function readRecorded(
  queries: Queries,
  views: Pick<CallViews, 'get'>,
  { callId, reader, signal }: { readonly callId: string; readonly reader: Reader; readonly signal: AbortSignal },
): Promise<RecordedCall> {
  const tenant = tenantOf(reader)
  const { result: outcome, state } = await views.get(callId, reader, signal)
  const [row] = await queries.query<RecordedRow>(callSql, [tenant, callId])
  if (outcome === undefined || row === undefined) {
    throw new ToolError('INPUT_INVALID', `The call has not ended, it is ${state}; there is nothing to replay yet.`)
  }
  const call = callOf(row)
  const rows = await queries.query<FileRow>(filesSql, [tenant, callId, row.fence])
  const files = rows.map((file): [string, ArtifactRef] => [file.digest, { ...fileOf(file) }])
  const journal = call.kind !== 'call' ? await journalOf(queries, callId, row.effect_key) : new Map()
  return { call, fence: row.fence, outcome, journal, files: new Map(files) }
}

async function journalOf(queries: Queries, callId: string, repeated: string | null): Promise<RecordedCall['journal']> {
  const journal = journalRecords(queries)
  const earlier = repeated === null ? [] : await journal.read(repeated)
  return new Map([...earlier, ...(await journal.read(callId))])
}

type RecordedRow = {
  call_id: string
  kind: AdmittedCall['kind']
  identity: string
  tool: string
  digest: string | null
  payload: string | null
  payload_ref: string | null
  payload_bytes: number
  effect_key: string | null
  fence: number
}

function callOf(row: RecordedRow): RecordedCall['call'] {
  return {
    callId: row.call_id,
    kind: row.kind,
    identity: JSON.parse(row.identity),
    tool: row.tool,
    payloadBytes: row.payload_bytes,
    ...(row.digest === null ? {} : { digest: row.digest }),
    ...(row.payload === null ? {} : { payload: row.payload }),
    ...(row.payload_ref === null ? {} : { payloadRef: row.payload_ref }),
    ...(row.effect_key === null ? {} : { effectKey: row.effect_key }),
  }
}

type FileRow = { id: string; name: string; mime_type: string; bytes: number; digest: string }

function fileOf({ id, name, mime_type: mimeType, bytes, digest }: FileRow): ArtifactRef {
  return { id, name, mimeType, bytes: Number(bytes), digest }
}

const callSql = `
  select c.call_id, c.kind, c.identity, c.tool, c.digest, c.payload, c.payload_ref, c.payload_bytes, c.effect_key, r.fence
  from calls c join results r on r.call_id = c.call_id
  where c.tenant = $1 and c.call_id = $2`

const filesSql = `
  select id, name, mime_type, bytes, digest from artifacts
  where tenant = $1 and call_id = $2 and fence = $3 order by created_at limit 10000`
