import { createHmac } from 'node:crypto'
import type { Approval, ApprovalRequest, Approver } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { ApprovalRecords } from '../../storage/approvals/approvals.ts'
import type { CallStore } from '../../storage/calls/call-store.ts'
import { patiently } from './inner-calls.ts'

export interface ApproverOptions {
  /** Of fingerprints; the same in all processes of a service. */
  readonly key: string
  /** Resolves once the store has the call. */
  readonly entering?: NonNullable<CallStore['entering']> | undefined
}

/**
 * Asks persons through the table of approvals, and waits for none of them: a call without a decision ends its attempt as
 * pending, and is made again once there is one. A store that is away is waited for as long as the call may go on.
 */
export function createApprover(
  records: Pick<ApprovalRecords, 'ask'>,
  { key, entering = () => undefined }: ApproverOptions,
): Approver {
  return {
    pends: true,
    async approve(request, waiting) {
      // Nobody is asked about a call that may never be there.
      await entering(request.callId)
      return patiently(() => answer(request, records, key), waiting.signal)
    },
  }
}

async function answer(request: ApprovalRequest, records: Pick<ApprovalRecords, 'ask'>, key: string): Promise<Approval> {
  const { identity, id: tool, shown, hidden, files, callId: innerId, reason, approvers = [], withinMs } = request
  const { tenant, principal } = identity
  const standing = await records.ask({
    ...{ tenant, principal, tool, shown, hidden, files, innerId, reason, approvers, withinMs },
    // Ids that this service gives to calls have no dot; those of the calls inside one go on behind a dot.
    callId: innerId.split('.', 1)[0] ?? innerId,
    fingerprint: approvalFingerprint(request, key),
  })
  if (standing.kind === 'open') {
    const { id, expiresMs } = standing
    return { approved: false, pending: { id, expiresMs } }
  }
  if (standing.kind === 'expired') return { approved: false, reason: 'nobody decided in time' }
  const { kind, by, why, as } = standing
  if (kind === 'approve') return { approved: true, by, ...(as === undefined ? {} : { self: as }) }
  return { approved: false, by, reason: `${by} denied it${why === undefined ? '' : `: ${why}`}` }
}

/**
 * What an approval is bound to: another tool, definition, argument, tenant or caller is another question, and so is other
 * content of a file that the arguments name. It is keyed, because approvers see it and could try out what is hidden from them.
 */
function approvalFingerprint({ id, digest, args, identity, files }: ApprovalRequest, key: string): string {
  // Without files it is what earlier versions made of the same call, so that their open questions stay.
  const contents = files.length === 0 ? [] : [files.map((file) => [file.id, file.digest ?? null])]
  return createHmac('sha256', key)
    .update(canonicalJson([id, digest, args, identity.tenant, identity.principal, ...contents]))
    .digest('hex')
}
