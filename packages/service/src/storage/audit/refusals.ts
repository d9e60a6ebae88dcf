import type { ErrorCode } from '@gantry/contract'
import type { Queries } from '../databases/database.ts'
import { storable } from '../storable.ts'

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
