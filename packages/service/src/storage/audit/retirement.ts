import { createHmac } from 'node:crypto'
import type { AuditRow } from './audit-rows.ts'
import type { SealKey } from './seals.ts'

/** Which seals the retention removed: all up to this one. */
export interface Retirement {
  readonly seal: number
  readonly hash: string
  readonly uptoSeq: number
}

/** The last seal that the retention removed, as a row of the record says. */
export interface Retired extends Retirement {
  readonly at: string
  readonly row: number
  /** Whether somebody noted it who has a key. */
  readonly proven: boolean
}

export const retireAction = 'audit.retire'
/** In whose name the retention notes what it did. */
export const retiringPrincipal = 'gantry'

/** Whoever may add rows can write a note, so the retention proves with its key that the note is its own. */
export function proofOf({ seal, hash, uptoSeq }: Retirement, { id, secret }: SealKey): string {
  const said = ['gantry audit retirement 1', seal, hash, uptoSeq, id].join(';')
  return createHmac('sha256', secret).update(said).digest('hex')
}

/** What a row says of a retirement; undefined for a row about anything else. */
export function retirementIn(row: AuditRow, keys: readonly SealKey[]): Retired | undefined {
  const { phase, tool, tenant, principal, details, at, seq } = row
  if (phase !== 'admin' || tool !== retireAction || tenant !== '' || principal !== retiringPrincipal) return undefined
  try {
    const { seal, hash, uptoSeq, keyId, proof } = JSON.parse(details ?? '')
    if (typeof seal !== 'number' || typeof uptoSeq !== 'number') return undefined
    const said = { seal, hash: String(hash), uptoSeq }
    const key = keys.find(({ id }) => id === keyId)
    return { ...said, at, row: seq, proven: key !== undefined && proof === proofOf(said, key) }
  } catch {
    return undefined
  }
}
