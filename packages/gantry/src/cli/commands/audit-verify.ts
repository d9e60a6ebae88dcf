import { resolve } from 'node:path'
import type { AuditVerdict } from '@gantry/client'
import { findService } from '../find-service.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { printJson } from '../print.ts'
import { factsText } from '../table.ts'
import { safeLine } from '../terminal.ts'

/** Says whether the audit record is as it was sealed: by the service that runs, of a file, or of a database at rest. */
export const execute: Command = async ({ options }, io) => {
  const verdict = await verdictOf(options, io)
  if (options.json === true) await printJson(verdict, io)
  else await io.out(verdictText(verdict))
  return verdict.ok ? 0 : 1
}

async function verdictOf(options: OptionValues, io: Io): Promise<AuditVerdict> {
  const { head, file } = options
  const found = file === undefined ? await findService(options, io) : undefined
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
    ...{ head, file: file === undefined ? undefined : resolve(io.folder, file), signal: io.signal },
    say: (line) => io.err(`${safeLine(line)}\n`),
  })
}

function verdictText({ ok, seals, rows, unsealed, head, retired, findings, findingsTotal }: AuditVerdict): string {
  const removed = retired === undefined ? undefined : retiredText(retired)
  const facts = factsText({ ...{ verified: ok ? 'ok' : 'BROKEN', rows, seals, unsealed }, retired: removed, head })
  const more = findingsTotal > findings.length ? [`and ${findingsTotal - findings.length} more`] : []
  return `${facts}${[...findings.map(({ what, message }) => `${what}: ${message}`), ...more].map((line) => `${safeLine(line)}\n`).join('')}`
}

function retiredText({ seal, uptoSeq, at, proven }: NonNullable<AuditVerdict['retired']>): string {
  return `up to row ${uptoSeq} (seal ${seal}) at ${at}, ${proven ? 'proven with a key' : 'not proven'}`
}
