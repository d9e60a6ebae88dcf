import type { AuditView } from '@gantry/client'
import type { Command } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { withService } from '../session.ts'
import { moreText, tableText } from '../table.ts'

/** Lists the audit record, newest first. */
export const execute: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, json } = options
    const page = await client.audit.list({ ...auditFilter(options), limit, cursor, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out(`No rows${page.cursor === undefined ? '' : ' so far'}.\n`)
    else await io.out(tableText(head, page.items.map(cells), io))
    if (json !== true) await io.out(moreText(page.cursor))
    return 0
  })

const head = ['row', 'at', 'tenant', 'principal', 'phase', 'tool', 'call', 'status', 'code']

function cells({ seq, at, tenant, principal, phase, tool, callId, status, code }: AuditView) {
  return [seq, at, tenant, principal, phase, tool, callId, status, code]
}

/** The options that choose rows. */
export function auditFilter({ tenant, principal, tool, call, status, phase, since, until }: OptionValues) {
  return { tenant, principal, tool, call, status, phase, since, until }
}
