import type { ErrorCode } from '@gantry/contract'
import type { Queries } from '../databases/database.ts'
import { storable } from '../stores/storable.ts'

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
/** Different ones between two flushes; all further ones are counted together. */
const mostKept = 1_000
const longestText = 500

export function createRefusals(queries: Queries): Refusals {
  let kept = new Map<string, { refusal: Refusal; times: number }>()
  const count = (refusal: Refusal, times: number): void => {
    const key = JSON.stringify(Object.values(refusal))
    const known = kept.get(key)
    if (known !== undefined) known.times += times
    else if (kept.size < mostKept || refusal === rest) kept.set(key, { refusal, times })
    else count(rest, times)
  }
  return {
    add({ tenant, principal, tool, code, config, reason }) {
      if (!audited.has(code)) return
      const plain = (text: string): string => storable(text.slice(0, longestText))
      const why = code === 'DENIED' && reason !== undefined ? { reason: plain(reason) } : {}
      const what = { tenant: plain(tenant), principal: plain(principal), tool: plain(tool) }
      count({ ...what, code, config, ...why }, 1)
    },
    async flush() {
      if (kept.size === 0) return
      const written = [...kept.values()]
      kept = new Map()
      const rows = written.map(({ refusal: { reason, ...refusal }, times }) => ({
        ...refusal,
        details: reason === undefined && times === 1 ? null : JSON.stringify({ reason, times }),
      }))
      try {
        await queries.query(insertSql, [JSON.stringify(rows)])
      } catch (error) {
        for (const { refusal, times } of written) count(refusal, times)
        throw error
      }
    },
  }
}

/** Stands for those that were too many to tell apart. */
const rest: Refusal = { tenant: '', principal: '', tool: '', code: 'RATE_LIMITED', config: '' }

const insertSql = `
  insert into audit (tenant, principal, call_id, fence, phase, tool, status, code, config, details)
  select tenant, principal, '', 0, 'refused', tool, 'denied', code, config, details
  from json_to_recordset($1::json) as d(
    tenant text, principal text, tool text, code text, config text, details text)`
