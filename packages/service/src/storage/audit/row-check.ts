import { type AuditRow, digestOf } from './audit-rows.ts'
import type { Gap } from './chain-check.ts'
import type { Findings } from './findings.ts'
import { type Retired, retirementIn } from './retirement.ts'
import type { Seal, SealKey } from './seals.ts'

export interface RowCheck {
  readonly rows: number
  /** Rows behind the last seal. */
  readonly unsealed: number
  /** The last retirement on the record; one that is proven counts before those that are not. */
  readonly retired: Retired | undefined
  /** The rows that follow are those of this seal; one that does not hold says nothing of them. */
  under(seal: Seal, how: { readonly holds: boolean; readonly gap: Gap | undefined }): void
  take(row: AuditRow): void
  /** A row with a number that was never given out. */
  stray(seq: string): void
  end(): void
}

/** Whether the rows under each seal are exactly those that it stands for. */
export function createRowCheck(findings: Findings, keys: readonly SealKey[]): RowCheck {
  let rows = 0
  let unsealed = 0
  let lastSeq = Number.NEGATIVE_INFINITY
  let retired: Retired | undefined
  let seal: Seal | undefined
  let holds = false
  let gap: Gap | undefined
  /** Rows that the seal stands for and that have not come yet, with their digests. */
  let expected = new Map<number, string>()

  const compare = (row: AuditRow, { n }: Seal): void => {
    const { seq } = row
    const digest = expected.get(seq)
    expected.delete(seq)
    if (digest === undefined)
      findings.add('inserted', { seq, seal: n }, `Row ${seq} was put in after seal ${n} was made.`)
    else if (digestOf(row).toString('hex') !== digest) {
      findings.add('changed', { seq, seal: n }, `Row ${seq} is not the one that seal ${n} stands for.`)
    }
  }
  const end = (): void => {
    for (const seq of expected.keys()) {
      findings.add(
        'missing',
        { seq, ...(seal && { seal: seal.n }) },
        `Row ${seq} is missing; seal ${seal?.n} stands for it.`,
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
      // Rows of a file that come before their seal, or whose seal is gone.
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
    stray(seq) {
      const place = Number(seq)
      const where = Number.isSafeInteger(place) ? { seq: place } : {}
      findings.add('inserted', where, `Row ${seq} was put in: no such number was given out.`)
    },
    end,
  }
}
