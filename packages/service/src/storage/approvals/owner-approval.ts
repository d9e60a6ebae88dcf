import type { Identity } from '@gantry/contract'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Queries } from '../databases/database.ts'

interface OwnerApprovalParts {
  /** The identity of the key file. Only the authenticator of the key file returns this very object. */
  readonly owner: Identity
  /** Whether this process has the database to itself. */
  readonly exclusive: boolean
  readonly settings: Pick<ServiceSettings, 'approvals' | 'authentication'>
}

/**
 * Whether a caller may decide on its own call. Only the key of the key file may: an identity with the same name and
 * rights from a stored key, its successor, a token or a signature is another object. By default it may while no other
 * key could decide: in an embedded service without other live keys and without tokens.
 * - Time: checked within the transaction of the decision.
 */
export function ownerApproval({ owner, exclusive, settings }: OwnerApprovalParts) {
  return async (by: Identity, queries: Queries): Promise<'owner' | undefined> => {
    const { approvals, authentication } = settings
    if (by !== owner || approvals.self === 'never') return undefined
    if (approvals.self === 'owner') return 'owner'
    if (!exclusive || authentication.jwt.length > 0) return undefined
    return (await queries.query(otherKeySql)).length === 0 ? 'owner' : undefined
  }
}

const otherKeySql = 'select from api_keys where revoked_at is null and expires_at > now() limit 1'
