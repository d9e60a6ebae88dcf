import { createHmac } from 'node:crypto'
import { type AuditFinding, type AuditVerdict, ToolError } from '@gantry/contract'
import { type AuditEntry, type AuditRow, digestOf, hashOf, noHash, type Seal, type SealKey } from './entries.ts'

export interface VerifyOptions {
  /** All keys of seals. */
  readonly keys?: readonly SealKey[]
  /** An earlier head, which must still be in the chain. */
  readonly head?: string | undefined
}

/** An entry of a file; `oddLine` is its line number when the line differs from what an export writes. */
export type ReadEntry = AuditEntry & { readonly oddLine?: number }

/**
 * Whether the audit log is as it was sealed: every seal unchanged and in its place, every row under it present and
 * unchanged, and no other row. The seals that the retention removed are missing at one place, and its last note on the
 * record says which; with keys, only a note that is proven with one.
 * - Errors: INPUT_INVALID for a head that is none, and those of `entries`; what is wrong with the record is in the
 *   verdict.
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
    else if (entry.kind === 'stray') rows.unsequenced(entry.seq)
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
    seals: chain.seals,
    rows: rows.rows,
    unsealed: rows.unsealed,
    ...(chain.last === undefined ? {} : { head: `${chain.last.n}:${chain.last.hash}` }),
    ...(retired === undefined ? {} : { retired: retiredView(retired) }),
    findings: findings.first,
    findingsTotal: findings.total,
  }
}

function retiredView({ seal, uptoSeq, at, proven }: Retired): NonNullable<AuditVerdict['retired']> {
  return { seal, uptoSeq, at, proven }
}

/** Reports a line with other bytes than an export writes; digests cover only the meaning of entries. */
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
  if (found !== undefined) say('has another hash: the chain was rewritten')
  else if (n < (retired?.seal ?? 0)) say('was removed by the retention: use a newer head')
  else say('is missing: the end of the chain was cut off')
}

/** Missing seals before another, and the number of present entries that they may have covered. */
interface Gap {
  readonly from: number
  readonly next: Seal
  rows: number
}

interface ChainCheck {
  readonly seals: number
  readonly last: Seal | undefined
  /** Checks the next seal; returns whether it is unchanged, and which seals are missing before it. */
  take(seal: Seal): { readonly holds: boolean; readonly gap: Gap | undefined }
  /** Reports missing seals, except those that retention removed, which must be proven when there are keys. */
  end(retired: Retired | undefined): void
}

/** Whether every seal is unchanged and continues the one before. */
function createChainCheck(findings: Findings, keys: readonly SealKey[]): ChainCheck {
  const gaps: Gap[] = []
  let last: Seal | undefined
  let seals = 0
  let keyed = false
  /** Accepted hashes of the last seal: the stored one and the computed one. */
  let hashes: readonly string[] = [noHash]

  const faultOf = (seal: Seal, hash: string | undefined): string | undefined => {
    if (hash === undefined) return `was made with a key that is not known here, ${seal.keyId}`
    if (hash !== seal.hash || !isWhole(seal)) return 'was changed'
    if (keyed && seal.keyId === null) return 'was made without a key although those before have one'
    return undefined
  }
  const place = (seal: Seal): Gap | undefined => {
    const { n } = seal
    const expected = (last?.n ?? 0) + 1
    if (n > expected) {
      const gap = { from: expected, next: seal, rows: 0 }
      gaps.push(gap)
      return gap
    }
    if (n < expected) findings.add('order', { seal: n }, `Seal ${n} stands behind seal ${last?.n}.`)
    else if (!hashes.includes(seal.prev) || seal.afterSeq !== (last?.uptoSeq ?? 0)) {
      findings.add(
        'chain',
        { seal: n },
        `Seal ${n} does not continue ${last === undefined ? 'from nothing' : `seal ${last.n}`}.`,
      )
    }
    return undefined
  }
  return {
    get seals() {
      return seals
    },
    get last() {
      return last
    },
    take(seal) {
      seals += 1
      const key = keys.find(({ id }) => id === seal.keyId)
      const hash = seal.keyId !== null && key === undefined ? undefined : hashOf(seal, key)
      const fault = faultOf(seal, hash)
      if (fault !== undefined)
        findings.add(hash === undefined ? 'key' : 'seal', { seal: seal.n }, `Seal ${seal.n} ${fault}.`)
      const gap = place(seal)
      hashes = hash === undefined ? [seal.hash] : [seal.hash, hash]
      keyed ||= seal.keyId !== null
      last = seal
      return { holds: fault === undefined, gap }
    },
    end(retired) {
      for (const gap of gaps) tellOf(gap, retired, keys.length > 0, findings)
      if (last !== undefined && last.keyId === null && keys.length > 0) {
        findings.add(
          'key',
          { seal: last.n },
          `Seal ${last.n}, the last one, was made without a key although there is one.`,
        )
      }
    },
  }
}

function tellOf(gap: Gap, retired: Retired | undefined, keyed: boolean, findings: Findings): void {
  const { from, next, rows } = gap
  const upto = next.n - 1
  const which = from === upto ? `Seal ${from} is` : `Seals ${from} to ${upto} are`
  const known = from === 1 && retired?.seal === upto
  if (!known || retired.hash !== next.prev || retired.uptoSeq !== next.afterSeq) {
    findings.add('seal', { seal: from }, `${which} missing; no seal covers the ${rows} rows up to ${next.afterSeq}.`)
    return
  }
  if (keyed && !retired.proven) {
    findings.add(
      'unproven',
      { seq: retired.row, seal: from },
      `${which} missing; row ${retired.row} says that the retention removed them, but no key that is known here proves it.`,
    )
  }
  if (rows > 0) {
    findings.add(
      'inserted',
      { seal: next.n },
      `${rows} rows up to ${next.afterSeq} stand before the first seal, ${next.n}.`,
    )
  }
}

/** Whether the lists of a seal fit together; a valid hash over inconsistent lists proves nothing. */
function isWhole({ seqs, digests, afterSeq, uptoSeq }: Seal): boolean {
  const inOrder = seqs.every((seq, index) => seq > (seqs[index - 1] ?? afterSeq))
  return inOrder && (seqs.at(-1) ?? uptoSeq) <= uptoSeq && digests.length === seqs.length * 64
}

interface RowCheck {
  readonly rows: number
  /** Entries after the last seal. */
  readonly unsealed: number
  /** The last retirement in the log; a proven one wins over others. */
  readonly retired: Retired | undefined
  /** Starts the entries of this seal; an invalid seal proves nothing about them. */
  under(seal: Seal, how: { readonly holds: boolean; readonly gap: Gap | undefined }): void
  take(row: AuditRow): void
  /** An entry with a number that the sequence never produced. */
  unsequenced(seq: string): void
  end(): void
}

/** Checks that the entries under each seal are exactly those that it covers. */
function createRowCheck(findings: Findings, keys: readonly SealKey[]): RowCheck {
  let rows = 0
  let unsealed = 0
  let lastSeq = Number.NEGATIVE_INFINITY
  let retired: Retired | undefined
  let seal: Seal | undefined
  let holds = false
  let gap: Gap | undefined
  /** Entries that the seal covers and that were not read yet, with their digests. */
  let expected = new Map<number, string>()

  const compare = (row: AuditRow, { n }: Seal): void => {
    const { seq } = row
    const digest = expected.get(seq)
    expected.delete(seq)
    if (digest === undefined)
      findings.add('inserted', { seq, seal: n }, `Row ${seq} was inserted after seal ${n} was made.`)
    else if (digestOf(row).toString('hex') !== digest) {
      findings.add('changed', { seq, seal: n }, `Row ${seq} is not the one that seal ${n} covers.`)
    }
  }
  const end = (): void => {
    for (const seq of expected.keys()) {
      findings.add(
        'missing',
        { seq, ...(seal && { seal: seal.n }) },
        `Row ${seq} is missing; seal ${seal?.n} covers it.`,
      )
    }
    expected = new Map()
  }
  return {
    get rows() {
      return rows
    },
    get unsealed() {
      return unsealed
    },
    get retired() {
      return retired
    },
    under(next, how) {
      end()
      // Entries of a file before their seal, or whose seal is missing.
      if (how.gap !== undefined) how.gap.rows += unsealed
      else if (unsealed > 0)
        findings.add('inserted', { seal: next.n }, `${unsealed} rows under no seal stand before seal ${next.n}.`)
      unsealed = 0
      seal = next
      holds = how.holds
      gap = how.gap
      const { seqs, digests } = next
      if (holds) expected = new Map(seqs.map((seq, place) => [seq, digests.slice(place * 64, place * 64 + 64)]))
    },
    take(row) {
      const { seq } = row
      rows += 1
      if (seq <= lastSeq) return findings.add('order', { seq }, `Row ${seq} stands behind row ${lastSeq}.`)
      lastSeq = seq
      const note = retirementIn(row, keys)
      if (note !== undefined && (note.proven || retired?.proven !== true)) retired = note
      if (seal === undefined || seq > seal.uptoSeq) unsealed += 1
      else if (gap !== undefined && seq <= seal.afterSeq) gap.rows += 1
      else if (holds) compare(row, seal)
    },
    unsequenced(seq) {
      const place = Number(seq)
      const where = Number.isSafeInteger(place) ? { seq: place } : {}
      findings.add('inserted', where, `Row ${seq} was inserted: the sequence never produced this number.`)
    },
    end,
  }
}

/** Collects findings: all are counted, only the first are kept. */
interface Findings {
  readonly first: readonly AuditFinding[]
  readonly total: number
  add(what: AuditFinding['what'], where: Pick<AuditFinding, 'seq' | 'seal'>, message: string): void
}

const mostKept = 100

function createFindings(): Findings {
  const first: AuditFinding[] = []
  let total = 0
  return {
    first,
    get total() {
      return total
    },
    add(what, where, message) {
      total += 1
      if (first.length < mostKept) first.push({ what, ...where, message })
    },
  }
}

/** The last seal that retention removed, with all before it. */
interface Retirement {
  readonly seal: number
  readonly hash: string
  readonly uptoSeq: number
}

/** A retirement as an entry of the log records it. */
interface Retired extends Retirement {
  readonly at: string
  readonly row: number
  /** Whether the entry was written with a known key. */
  readonly proven: boolean
}

export const retireAction = 'audit.retire'
/** The principal of entries by retention. */
export const retiringPrincipal = 'gantry'

/** Any writer of the table can add such an entry, so retention signs it with its key. */
export function proofOf({ seal, hash, uptoSeq }: Retirement, { id, secret }: SealKey): string {
  const retirement = ['gantry audit retirement 1', seal, hash, uptoSeq, id].join(';')
  return createHmac('sha256', secret).update(retirement).digest('hex')
}

/** The retirement that an entry records; undefined for any other entry. */
function retirementIn(row: AuditRow, keys: readonly SealKey[]): Retired | undefined {
  const { phase, tool, tenant, principal, details, at, seq } = row
  if (phase !== 'admin' || tool !== retireAction || tenant !== '' || principal !== retiringPrincipal) return undefined
  try {
    const { seal, hash, uptoSeq, keyId, proof } = JSON.parse(details ?? '')
    if (typeof seal !== 'number' || typeof uptoSeq !== 'number') return undefined
    const retirement = { seal, hash: String(hash), uptoSeq }
    const key = keys.find(({ id }) => id === keyId)
    return { ...retirement, at, row: seq, proven: key !== undefined && proof === proofOf(retirement, key) }
  } catch {
    return undefined
  }
}
