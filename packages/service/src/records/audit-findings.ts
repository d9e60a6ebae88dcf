/** Something that is not as it was sealed, and where. */
export interface AuditFinding {
  readonly what: 'changed' | 'missing' | 'inserted' | 'order' | 'seal' | 'chain' | 'key' | 'head'
  /** The number of the row. */
  readonly seq?: number
  /** The number of the seal. */
  readonly seal?: number
  readonly message: string
}

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
