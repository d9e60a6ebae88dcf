import { resolve } from 'node:path'
import type { AuditVerdict, AuditView } from '@gantry/client'
import { findService } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { factsText, moreText, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

/** Lists the audit record, newest first. */
export const listAudit: Command = ({ options }, io) =>
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

/** Writes the audit record as lines of JSON, oldest first. */
export const exportAudit: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { body } = await client.audit.export({ ...auditFilter(options), signal: io.signal })
    for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) await io.out(piece)
    return 0
  })

/** Verifies the audit record: of the running service, of a file, or of a database without a service. */
export const verifyAudit: Command = async ({ options }, io) => {
  const verdict = await verdictOf(options, io)
  if (options.json === true) await printJson(verdict, io)
  else await io.out(verdictText(verdict))
  return verdict.ok ? 0 : 1
}

async function verdictOf(options: OptionValues, io: Io): Promise<AuditVerdict> {
  const { head } = options
  const file = options.file?.at(-1)
  const found = file === undefined ? await findService(options, io, 'or-here') : undefined
  if (found !== undefined && found.missing === undefined) return found.client.audit.verify({ head, signal: io.signal })
  const { loadConfig, verifyRecord } = await import('@gantry/service/serve')
  const { config, data } = options
  const environment = data === undefined ? io.environment : { ...io.environment, GANTRY_DATA: resolve(io.folder, data) }
  const request = {
    environment,
    folder: io.folder,
    signal: io.signal,
    ...(config === undefined ? {} : { file: config }),
  }
  return verifyRecord(await loadConfig(request), {
    head,
    file: file === undefined ? undefined : resolve(io.folder, file),
    signal: io.signal,
    say: (line) => io.err(`${safeLine(line)}\n`),
  })
}

function verdictText({ ok, seals, rows, unsealed, head, retired, findings, findingsTotal }: AuditVerdict): string {
  const removed = retired === undefined ? undefined : retiredText(retired)
  const facts = factsText({ verified: ok ? 'ok' : 'BROKEN', rows, seals, unsealed, retired: removed, head })
  const more = findingsTotal > findings.length ? [`and ${findingsTotal - findings.length} more`] : []
  return `${facts}${[...findings.map(({ what, message }) => `${what}: ${message}`), ...more].map((line) => `${safeLine(line)}\n`).join('')}`
}

function retiredText({ seal, uptoSeq, at, proven }: NonNullable<AuditVerdict['retired']>): string {
  return `up to row ${uptoSeq} (seal ${seal}) at ${at}, ${proven ? 'proven with a key' : 'not proven'}`
}
