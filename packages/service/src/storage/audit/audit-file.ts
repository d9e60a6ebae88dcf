import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { type AuditVerdict, ToolError } from '@gantry/contract'
import type { LoadedConfig } from '../../config/config.ts'
import { connectStorage } from '../connect-storage.ts'
import { auditKeys } from './audit-log.ts'
import { type AuditEntry, type AuditRow, lineOf, readAudit, type Seal } from './entries.ts'
import { type ReadEntry, verifyAudit } from './verify.ts'

export interface VerifyRequest {
  /** An export of the whole log; without it, the database of the configuration is read. */
  readonly file?: string | undefined
  /** An earlier head, which must still be in the chain. */
  readonly head?: string | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/** Verifies an audit log without a service, with the keys that the configuration names. */
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

/**
 * What an export wrote, read back line by line. What a line says is for who verifies to judge, and so is one that no
 * export writes like this, with a member twice or one too many; one that is neither a row nor a seal rejects with
 * INPUT_INVALID, which names it.
 */
export async function* readAuditFile(file: string, signal: AbortSignal): AsyncGenerator<ReadEntry, void> {
  const input = createReadStream(file, { signal })
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  let number = 0
  try {
    for await (const line of lines) {
      number += 1
      const entry = entryIn(line)
      if (entry === undefined)
        throw new ToolError('INPUT_INVALID', `Line ${number} of ${file} is neither an entry nor a seal.`)
      yield lineOf(entry) === line ? entry : { ...entry, oddLine: number }
    }
  } finally {
    lines.close()
    input.destroy()
  }
}

const rowTexts = ['at', 'tenant', 'principal', 'callId', 'phase', 'tool'] as const satisfies (keyof AuditRow)[]
const rowMaybes = ['worker', 'status', 'code', 'config', 'details'] as const satisfies (keyof AuditRow)[]
const sealNumbers = ['n', 'afterSeq', 'uptoSeq'] as const satisfies (keyof Seal)[]
const sealTexts = ['prev', 'digests', 'sealedAt', 'hash'] as const satisfies (keyof Seal)[]

function entryIn(line: string): AuditEntry | undefined {
  try {
    const entry = JSON.parse(line)
    return isRow(entry) || isSeal(entry) || isUnsequenced(entry) ? entry : undefined
  } catch {
    return undefined
  }
}

type Read = { readonly [name: string]: unknown }

function isRow(entry: Read): boolean {
  const { kind, seq, fence } = entry
  const texts = rowTexts.every((name) => isText(entry[name]))
  const maybes = rowMaybes.every((name) => isText(entry[name]) || entry[name] === null)
  return kind === 'row' && Number.isSafeInteger(seq) && fence === (Number(fence) | 0) && texts && maybes
}

function isUnsequenced({ kind, seq }: Read): boolean {
  return kind === 'stray' && typeof seq === 'string' && /^-?\d{1,19}$/.test(seq)
}

/** Refuses lone surrogates, which would be hashed as another character. */
function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed()
}

function isSeal(entry: Read): boolean {
  const { kind, keyId, seqs } = entry
  const numbers = sealNumbers.every((name) => Number.isSafeInteger(entry[name]))
  const texts = sealTexts.every((name) => typeof entry[name] === 'string')
  const list = Array.isArray(seqs) && seqs.every((seq) => Number.isSafeInteger(seq))
  return kind === 'seal' && numbers && texts && list && (keyId === null || typeof keyId === 'string')
}
