import { type AuditVerdict, ToolError } from '@gantry/contract'
import type { AuditEntry } from './audit-reader.ts'
import { createChainCheck } from './chain-check.ts'
import { createFindings, type Findings } from './findings.ts'
import type { Retired } from './retirement.ts'
import { createRowCheck } from './row-check.ts'
import type { SealKey } from './seals.ts'

export interface VerifyOptions {
  /** All that seals were made with. */
  readonly keys?: readonly SealKey[]
  /** A head of before, which must still be in the chain. */
  readonly head?: string | undefined
}

/** An entry with, when it stands in a file otherwise than an export writes it, the number of its line. */
export type ReadEntry = AuditEntry & { readonly oddLine?: number }

/**
 * Whether the audit record is as it was sealed: every seal unchanged and in its place, every row under it there and
 * unchanged, and none besides. The seals that the retention removed are missing at one place, and its last note on the
 * record says which; with keys, only a note that is proven with one.
 * - Errors: INPUT_INVALID for a head that is none, and those of `entries`; what is wrong with the record is in the verdict.
 */
export async function verifyAudit(
  entries: AsyncIterable<ReadEntry>,
  { keys = [], head }: VerifyOptions = {},
): Promise<AuditVerdict> {
  const wanted = head === undefined ? undefined : readHead(head)
  const findings = createFindings()
  const chain = createChainCheck(findings, keys)
  const rows = createRowCheck(findings, keys)
  let met: string | undefined
  for await (const entry of entries) {
    if (entry.oddLine !== undefined) tellOfLine(entry, entry.oddLine, findings)
    if (entry.kind === 'row') rows.take(entry)
    else if (entry.kind === 'stray') rows.stray(entry.seq)
    else {
      rows.under(entry, chain.take(entry))
      if (entry.n === wanted?.n) met = entry.hash
    }
  }
  rows.end()
  const { retired } = rows
  chain.end(retired)
  if (wanted !== undefined) checkHead(wanted, met, retired, findings)
  return {
    ok: findings.total === 0,
    ...{ seals: chain.seals, rows: rows.rows, unsealed: rows.unsealed },
    ...(chain.last === undefined ? {} : { head: `${chain.last.n}:${chain.last.hash}` }),
    ...(retired === undefined ? {} : { retired: retiredView(retired) }),
    ...{ findings: findings.first, findingsTotal: findings.total },
  }
}

function retiredView({ seal, uptoSeq, at, proven }: Retired): NonNullable<AuditVerdict['retired']> {
  return { seal, uptoSeq, at, proven }
}

/** Rows and seals are hashed by what they mean, so that only this shows what else a line says. */
function tellOfLine(entry: AuditEntry, line: number, findings: Findings): void {
  const say = (name: string): string => `Line ${line} is not what an export writes for ${name}.`
  if (entry.kind === 'seal') findings.add('seal', { seal: entry.n }, say(`seal ${entry.n}`))
  else if (entry.kind === 'row') findings.add('changed', { seq: entry.seq }, say(`row ${entry.seq}`))
}

interface Head {
  readonly n: number
  readonly hash: string
}

function readHead(text: string): Head {
  const [, n, hash] = /^([1-9]\d{0,14}):([0-9a-f]{64})$/.exec(text) ?? []
  if (n !== undefined && hash !== undefined) return { n: Number(n), hash }
  const message = 'A head is the number of a seal, a colon and its hash, as a verification printed it.'
  throw new ToolError('INPUT_INVALID', message, { details: { issues: [{ path: '/head', message }] } })
}

function checkHead({ n, hash }: Head, met: string | undefined, retired: Retired | undefined, findings: Findings): void {
  const found = met ?? (retired?.seal === n ? retired.hash : undefined)
  if (found === hash) return
  const say = (words: string): void => findings.add('head', { seal: n }, `Seal ${n} of the head ${words}.`)
  if (found !== undefined) say('has another hash: the chain was made anew')
  else if (n < (retired?.seal ?? 0)) say('was removed by the retention: use a newer head')
  else say('is missing: the end was cut off')
}
