import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { ToolError } from '@gantry/contract'
import { lineOf } from './audit-line.ts'
import type { AuditEntry } from './audit-reader.ts'
import type { AuditRow } from './audit-rows.ts'
import type { Seal } from './seals.ts'
import type { ReadEntry } from './verify.ts'

/**
 * What an export wrote, read back line by line. What a line says is for who verifies to judge, and so is one that no export
 * writes like this, with a member twice or one too many; one that is neither a row nor a seal rejects with INPUT_INVALID,
 * which names it.
 */
export async function* readAuditFile(file: string, signal: AbortSignal): AsyncGenerator<ReadEntry, void> {
  const input = createReadStream(file, { signal })
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  let number = 0
  try {
    for await (const line of lines) {
      number += 1
      const entry = entryIn(line)
      if (entry === undefined) throw new ToolError('INPUT_INVALID', `Line ${number} of ${file} is no row and no seal.`)
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
    return isRow(entry) || isSeal(entry) || isStray(entry) ? entry : undefined
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

function isStray({ kind, seq }: Read): boolean {
  return kind === 'stray' && typeof seq === 'string' && /^-?\d{1,19}$/.test(seq)
}

/** Half a character would be hashed as another one. */
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
