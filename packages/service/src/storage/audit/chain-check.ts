import type { Findings } from './findings.ts'
import type { Retired } from './retirement.ts'
import { hashOf, noHash, type Seal, type SealKey } from './seals.ts'

/** Seals that are missing before another, and how many rows are there that they may have stood for. */
export interface Gap {
  readonly from: number
  readonly next: Seal
  rows: number
}

export interface ChainCheck {
  readonly seals: number
  readonly last: Seal | undefined
  /** Takes the next seal; answers whether it is as it was made, and what is missing before it. */
  take(seal: Seal): { readonly holds: boolean; readonly gap: Gap | undefined }
  /** Says which seals are missing; those that the retention removed are not, if that is proven where there are keys. */
  end(retired: Retired | undefined): void
}

/** Whether every seal is unchanged and continues the one before. */
export function createChainCheck(findings: Findings, keys: readonly SealKey[]): ChainCheck {
  const gaps: Gap[] = []
  let last: Seal | undefined
  let seals = 0
  let keyed = false
  /** Of the last seal: what it says, and what it would have to say. */
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
    findings.add(
      'seal',
      { seal: from },
      `${which} missing; nothing vouches for the ${rows} rows up to ${next.afterSeq} that are there.`,
    )
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

/** Whether the lists of a seal fit together; a hash that somebody made over nonsense says nothing. */
function isWhole({ seqs, digests, afterSeq, uptoSeq }: Seal): boolean {
  const inOrder = seqs.every((seq, index) => seq > (seqs[index - 1] ?? afterSeq))
  return inOrder && (seqs.at(-1) ?? uptoSeq) <= uptoSeq && digests.length === seqs.length * 64
}
