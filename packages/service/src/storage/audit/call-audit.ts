import type { Audit, AuditRecord } from '@gantry/core'
import { createBatch } from '../batch.ts'
import { detailsText } from '../calls/end-details.ts'
import type { Queries } from '../databases/database.ts'

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
