import type { Identity } from '@gantry/contract'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Queries } from '../databases/database.ts'

export interface OwnerApprovalParts {
  /** Whose the key file is. The authenticator of the key file answers with this very object, and no other one does. */
  readonly owner: Identity
  /** Whether this process has the database to itself. */
  readonly exclusive: boolean
  readonly settings: Pick<ServiceSettings, 'approvals' | 'authentication'>
}

/**
 * Says whether a caller may decide on its own call. Only the key in the key file ever may: an identity with the same name
 * and rights from a stored key, its successor, a token or a signature is another object. Where the configuration does not
 * say, it may as long as no other key could decide: an embedded service without any other live key and without tokens.
 * - Time: asked within the transaction of the decision.
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
