import { type ErrorCode, ToolError } from '@gantry/contract'
import type { Audit, AuditRecord } from '@gantry/core'
import type { LoadedConfig } from '../../config/config.ts'
import { secretText } from '../../config/secret-text.ts'
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
  /** The first makes seals, all of them verify. */
  readonly keys: readonly SealKey[]
  /** The version of the present configuration goes into each entry. */
  readonly snapshots: { readonly current: Pick<Snapshot, 'version'> }
}

/** Everything about the audit record that a process does besides what stands in its statements. */
export interface AuditLog {
  /** For the pipeline. */
  readonly audit: Audit
  readonly refusals: Refusals
  /** For the doors. */
  readonly control: AuditControl
  readonly note: (note: AuditNote) => Promise<void>
  readonly jobs: readonly PeriodicJob[]
  /** Writes and seals what is left, and tells the head. */
  close(): Promise<void>
}

const sealMs = 1_000
/** The head goes to the log so often, and from there to where nobody can change it who can change the record. */
const headMs = 10 * 60_000

export function createAuditLog({ database, bus, keys, snapshots }: AuditLogParts): AuditLog {
  const sealer = createSealer({ database, key: keys[0] })
  const refusals = createRefusals(database)
  let head: string | undefined
  let told: string | undefined
  const seal = async (): Promise<void> => {
    await refusals.flush()
    head = (await sealer.seal()).head ?? head
  }
  const tell = async (): Promise<void> => {
    if (head !== undefined && head !== told) bus.emit('audit:head', { head })
    told = head
  }
  return {
    audit: sqlAudit(database, () => snapshots.current.version),
    refusals,
    control: createAuditControl(database, { sealer, keys }),
    note: (note) => noteAudit(database, note),
    jobs: [
      { name: 'seal', everyMs: sealMs, work: seal },
      { name: 'audit head', everyMs: headMs, work: tell },
    ],
    async close() {
      await seal().catch(() => undefined)
      await tell()
    },
  }
}

/** Shorter ones can be guessed, and whoever has a seal can try. */
const shortestKey = 16

/** What the configuration names to make and verify seals with; SECRET_UNAVAILABLE for one that is not there or too short. */
export async function auditKeys({ auditSecrets }: ServiceSettings, { options }: LoadedConfig): Promise<SealKey[]> {
  const keys: SealKey[] = []
  for (const name of auditSecrets) {
    const text = await secretText(name, options.secrets, 'seals the audit record')
    if (text.length < shortestKey) {
      const message = `The secret ${name}, which seals the audit record, has less than ${shortestKey} characters.`
      throw new ToolError('SECRET_UNAVAILABLE', message)
    }
    keys.push(sealKey(text))
  }
  return keys
}

/**
 * The pipeline's record in the table `audit`. The start and the end of a call that was claimed are written with the claim
 * and with the outcome, in their transactions; what is left is what only the pipeline knows: the definition and the
 * arguments of privileged calls and of those that run a program, and the calls inside a chain, whose ids have a dot.
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
    const { status, code, reason, outcome, runtime } = record
    const details = detailsText({ reason: reason?.slice(0, longestReason), outcome, runtime })
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

/** A call that was refused before it was taken in. */
export interface Refusal {
  readonly tenant: string
  readonly principal: string
  /** As it was asked for, which may be anything. */
  readonly tool: string
  readonly code: ErrorCode
  /** Of the configuration, with its policy, that refused it. */
  readonly config: string
  /** Of a denial, why. */
  readonly reason?: string | undefined
}

/** Puts refused calls on the audit record: what was tried, by whom, and how often. */
export interface Refusals {
  /** Remembers one until the next flush. Costs no statement, and no memory that a caller could make grow. */
  add(refusal: Refusal): void
  /** Writes what was remembered, a row for each different one; what cannot be written is kept for the next time. */
  flush(): Promise<void>
}

/** What somebody may not do; that he asked wrongly, or at a bad moment, is of no interest. */
const audited: ReadonlySet<ErrorCode> = new Set(['DENIED', 'TOOL_NOT_FOUND', 'RATE_LIMITED'])
const longestText = 500

/**
 * How exactly refusals are told apart until the next flush, the most exact first. What finds no room at one level is counted
 * at the next, so that whoever asks for very many different things blurs what he did himself, and nobody else's doings.
 */
const levels: readonly Level[] = [
  { of: (refusal) => refusal, room: { principal: 50, tenant: 1_000, all: 10_000 } },
  { of: ({ reason: _reason, ...who }) => ({ ...who, tool: '' }), room: { tenant: 5_000, all: 10_000 } },
  { of: ({ tenant, code, config }) => ({ tenant, principal: '', tool: '', code, config }), room: { all: 10_000 } },
  { of: () => ({ tenant: '', principal: '', tool: '', code: 'RATE_LIMITED', config: '' }), room: {} },
]

interface Level {
  of(refusal: Refusal): Refusal
  /** Rows of one principal, of one tenant and of all; without a number there is always room. */
  readonly room: { readonly principal?: number; readonly tenant?: number; readonly all?: number }
}

interface Kept {
  readonly refusal: Refusal
  readonly level: number
  times: number
}

/** What was refused since the last flush. */
function createTally() {
  const kept = new Map<string, Kept>()
  const used = new Map<string, number>()
  /** Takes room for one more row, or tells that there is none. */
  const takeRoom = ({ tenant, principal }: Refusal, level: number, { room }: Level): boolean => {
    const bounds = [
      [JSON.stringify([level, tenant, principal]), room.principal],
      [JSON.stringify([level, tenant]), room.tenant],
      [JSON.stringify([level]), room.all],
    ] as const
    if (bounds.some(([key, most]) => most !== undefined && (used.get(key) ?? 0) >= most)) return false
    for (const [key, most] of bounds) if (most !== undefined) used.set(key, (used.get(key) ?? 0) + 1)
    return true
  }
  return {
    kept,
    /** Counts at the first level from this one on that knows of it or has room. */
    count(refusal: Refusal, times: number, from = 0): void {
      for (const [index, level] of levels.entries()) {
        if (index < from) continue
        const told = level.of(refusal)
        const key = JSON.stringify(Object.values(told))
        const known = kept.get(key)
        if (known !== undefined) known.times += times
        else if (takeRoom(told, index, level)) kept.set(key, { refusal: told, level: index, times })
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
