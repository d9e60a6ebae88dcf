import { type AuditVerdict, ToolError } from '@gantry/contract'
import type { LoadedConfig } from '../config/config.ts'
import { readAuditFile } from '../storage/audit/audit-control.ts'
import { auditKeys } from '../storage/audit/audit-log.ts'
import { readAudit } from '../storage/audit/entries.ts'
import { verifyAudit } from '../storage/audit/verify.ts'
import { connectStorage } from '../storage/connect-storage.ts'

export interface VerifyRequest {
  /** An export of the whole record; without it, the database of the configuration is read. */
  readonly file?: string | undefined
  /** A head of before, which must still be in the chain. */
  readonly head?: string | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/** Verifies an audit record without a service, with the keys that the configuration names. */
export async function verifyRecord(loaded: LoadedConfig, request: VerifyRequest): Promise<AuditVerdict> {
  const { file, head, say, signal } = request
  const options = { keys: await auditKeys(loaded.service, loaded), head }
  if (file !== undefined) {
    const verdict = await verifyAudit(readAuditFile(file, signal), options)
    if (verdict.seals > 0) return verdict
    throw new ToolError('INPUT_INVALID', `${file} holds no seals; only an export of all tenants can be verified.`)
  }
  const { database } = await connectStorage(loaded.service, say, loaded.options.secrets)
  try {
    return await verifyAudit(readAudit(database, signal), options)
  } finally {
    await database.close()
  }
}
