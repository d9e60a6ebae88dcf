import { type ErrorCode, ToolError } from '@gantry/contract'
import type { Audit, AuditRecord } from '@gantry/core'
import type { LoadedConfig } from '../../config/config.ts'
import { secretText } from '../../config/secret-sources.ts'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Snapshot } from '../../config/snapshots.ts'
import type { Bus } from '../../observe/bus.ts'
import { createBatch } from '../batch.ts'
import { detailsText } from '../calls/call-facts.ts'
import { type Database, type Queries, storable } from '../databases/database.ts'
import type { PeriodicJob } from '../periodic-jobs.ts'
import { type AuditControl, createAuditControl } from './audit-control.ts'
import { type AuditNote, noteAudit, type SealKey, sealKey } from './entries.ts'
import { createSealer } from './sealer.ts'

interface AuditLogParts {
  readonly database: Database
  readonly bus: Bus
  /** The first signs seals; all verify. */
  readonly keys: readonly SealKey[]
  /** The version of the current configuration is written into each entry. */
  readonly snapshots: { readonly current: Pick<Snapshot, 'version'> }
}

/** The audit log of a process, apart from the entries that other statements write in their transactions. */
export interface AuditLog {
  /** For the pipeline. */
  readonly audit: Audit
  readonly refusals: Refusals
  /** For the API. */
  readonly control: AuditControl
  readonly note: (note: AuditNote) => Promise<void>
  readonly jobs: readonly PeriodicJob[]
  /** Writes pending refusals, seals all entries and emits the head. */
  close(): Promise<void>
}

const sealMs = 1_000
/** How often the head is logged, where writers of the database cannot change it. */
const headMs = 10 * 60_000

export function createAuditLog({ database, bus, keys, snapshots }: AuditLogParts): AuditLog {
  const sealer = createSealer({ database, key: keys[0] })
  const refusals = createRefusals(database)
  let head: string | undefined
  let logged: string | undefined
  const seal = async (): Promise<void> => {
    await refusals.flush()
    head = (await sealer.seal()).head ?? head
  }
  const logHead = async (): Promise<void> => {
    if (head !== undefined && head !== logged) bus.emit('audit:head', { head })
    logged = head
  }
  return {
    audit: sqlAudit(database, () => snapshots.current.version),
    refusals,
    control: createAuditControl(database, { sealer, keys }),
    note: (note) => noteAudit(database, note),
    jobs: [
      { name: 'seal', everyMs: sealMs, work: seal },
      { name: 'audit head', everyMs: headMs, work: logHead },
    ],
    async close() {
      await seal().catch(() => undefined)
      await logHead()
    },
  }
}

/** Shorter secrets can be guessed offline, because a seal is enough to check a guess. */
const shortestKey = 16

/** The configured keys of seals; throws SECRET_UNAVAILABLE for a missing or too short secret. */
export async function auditKeys({ auditSecrets }: ServiceSettings, { options }: LoadedConfig): Promise<SealKey[]> {
  const keys: SealKey[] = []
  for (const name of auditSecrets) {
    const text = await secretText(name, options.secrets, 'seals the audit log')
    if (text.length < shortestKey) {
      const message = `The secret ${name}, which seals the audit log, has fewer than ${shortestKey} characters; use a longer one.`
      throw new ToolError('SECRET_UNAVAILABLE', message)
    }
    keys.push(sealKey(text))
  }
  return keys
}

/**
 * The pipeline's record in the table `audit`. The start and the end of a call that was claimed are written with the
 * claim and with the outcome, in their transactions; what is left is what only the pipeline knows: the definition and
 * the arguments of privileged calls and of those that run a program, and the calls inside a chain, whose ids have a
 * dot.
 */
export function sqlAudit(queries: Queries, version: () => string): Audit {
  const batch = createBatch<AuditRecord, undefined>(async (records) => {
    await queries.query(insert, [JSON.stringify(records.map((record) => rowOf(record, version())))])
    return records.map(() => undefined)
  })
  return {
    write(record) {
      const inner = record.callId.includes('.')
      const privileged = record.phase === 'start' && record.digest !== undefined
      return inner || privileged ? batch.add(record) : undefined
    },
  }
}

const longestReason = 500

function rowOf(record: AuditRecord, config: string) {
  const { tenant, principal, callId, phase, tool, parent } = record
  const row = { tenant, principal, call_id: callId, tool, config }
  if (phase === 'end') {
    const { status, code, reason, outcome, runtime, thrownAt } = record
    const details = detailsText({ reason: reason?.slice(0, longestReason), outcome, runtime, thrownAt })
    return { ...row, phase, status, code, ...(details === undefined ? {} : { details }) }
  }
  const { digest, args, argsFile, hidden, approvedBy, approvedSelf, confinement } = record
  if (digest === undefined)
    return { ...row, phase, ...(parent === undefined ? {} : { details: JSON.stringify({ parent }) }) }
  const details = { parent, digest, args, argsFile, hidden, approvedBy, approvedSelf, confinement }
  return { ...row, phase: 'intent', details: JSON.stringify(details) }
}

const insert = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, status, code, config, details)
  select tenant, principal, call_id, 0, phase, tool, status, code, config, details
  from json_to_recordset($1::json) as d(
    tenant text, principal text, call_id text, phase text, tool text, status text, code text, config text, details text)`

/** A call that was refused before it was admitted. */
export interface Refusal {
  readonly tenant: string
  readonly principal: string
  /** As the caller sent it; may be any text. */
  readonly tool: string
  readonly code: ErrorCode
  /** Version of the configuration that refused it. */
  readonly config: string
  /** The reason of a denial. */
  readonly reason?: string | undefined
}

/** Writes refused calls to the audit log, with a count. */
export interface Refusals {
  /** Counts a refusal until the next flush, in bounded memory and without a statement. */
  add(refusal: Refusal): void
  /** Writes one entry per distinct refusal; entries that cannot be written are kept for the next flush. */
  flush(): Promise<void>
}

/** Refusals for lack of a right or a quota; invalid input and unavailability are not audited. */
const audited: ReadonlySet<ErrorCode> = new Set(['DENIED', 'TOOL_NOT_FOUND', 'RATE_LIMITED'])
const longestText = 500

/**
 * Levels of detail of refusals until the next flush, the most detailed first. A refusal beyond the limit of one level
 * is counted at the next, so that a principal with many different refusals loses only its own details.
 */
const levels: readonly Level[] = [
  { of: (refusal) => refusal, quota: { principal: 50, tenant: 1_000, all: 10_000 } },
  { of: ({ reason: _reason, ...who }) => ({ ...who, tool: '' }), quota: { tenant: 5_000, all: 10_000 } },
  { of: ({ tenant, code, config }) => ({ tenant, principal: '', tool: '', code, config }), quota: { all: 10_000 } },
  { of: () => ({ tenant: '', principal: '', tool: '', code: 'RATE_LIMITED', config: '' }), quota: {} },
]

interface Level {
  of(refusal: Refusal): Refusal
  /** Limits of entries per principal, per tenant and in total; none when absent. */
  readonly quota: { readonly principal?: number; readonly tenant?: number; readonly all?: number }
}

interface Kept {
  readonly refusal: Refusal
  readonly level: number
  times: number
}

/** Counts refusals since the last flush. */
function createTally() {
  const kept = new Map<string, Kept>()
  const used = new Map<string, number>()
  /** Reserves one more entry; false when the limit is reached. */
  const takeFromQuota = ({ tenant, principal }: Refusal, level: number, { quota }: Level): boolean => {
    const bounds = [
      [JSON.stringify([level, tenant, principal]), quota.principal],
      [JSON.stringify([level, tenant]), quota.tenant],
      [JSON.stringify([level]), quota.all],
    ] as const
    if (bounds.some(([key, most]) => most !== undefined && (used.get(key) ?? 0) >= most)) return false
    for (const [key, most] of bounds) if (most !== undefined) used.set(key, (used.get(key) ?? 0) + 1)
    return true
  }
  return {
    kept,
    /** Counts at the first level, from this one on, that has the refusal or is below its limit. */
    count(refusal: Refusal, times: number, from = 0): void {
      for (const [index, level] of levels.entries()) {
        if (index < from) continue
        const counted = level.of(refusal)
        const key = JSON.stringify(Object.values(counted))
        const known = kept.get(key)
        if (known !== undefined) known.times += times
        else if (takeFromQuota(counted, index, level)) kept.set(key, { refusal: counted, level: index, times })
        else continue
        return
      }
    },
  }
}

export function createRefusals(queries: Queries): Refusals {
  let tally = createTally()
  return {
    add({ tenant, principal, tool, code, config, reason }) {
      if (!audited.has(code)) return
      const plain = (text: string): string => storable(text.slice(0, longestText))
      const why = code === 'DENIED' && reason !== undefined ? { reason: plain(reason) } : {}
      const what = { tenant: plain(tenant), principal: plain(principal), tool: plain(tool) }
      tally.count({ ...what, code, config, ...why }, 1)
    },
    async flush() {
      if (tally.kept.size === 0) return
      const written = [...tally.kept.values()]
      tally = createTally()
      const rows = written.map(({ refusal: { reason, ...refusal }, times }) => ({
        ...refusal,
        details: reason === undefined && times === 1 ? null : JSON.stringify({ reason, times }),
      }))
      try {
        await queries.query(insertSql, [JSON.stringify(rows)])
      } catch (error) {
        for (const { refusal, times, level } of written) tally.count(refusal, times, level)
        throw error
      }
    },
  }
}

const insertSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, status, code, config, details)
  select tenant, principal, '', 0, 'refused', tool, 'denied', code, config, details
  from json_to_recordset($1::json) as d(
    tenant text, principal text, tool text, code text, config text, details text)`
