import type { AuditFinding } from '@gantry/contract'
/** Findings as they are made: the first are kept, all are counted. */
export interface Findings {
  readonly first: readonly AuditFinding[]
  readonly total: number
  add(what: AuditFinding['what'], where: Pick<AuditFinding, 'seq' | 'seal'>, message: string): void
}

const mostKept = 100

export function createFindings(): Findings {
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
