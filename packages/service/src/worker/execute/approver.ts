import { createHmac } from 'node:crypto'
import type { Approval, ApprovalRequest, Approver } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { ApprovalRecords } from '../../storage/approvals/approvals.ts'
import type { CallStore } from '../../storage/calls/call-store.ts'
import { patiently } from './inner-calls.ts'

export interface ApproverOptions {
  /** The key of fingerprints; the same in all processes of a service. */
  readonly key: string
  /** Resolves once the call is stored. */
  readonly entering?: NonNullable<CallStore['entering']> | undefined
}

/**
 * Requests approvals in the table of approvals, and does not wait for a decision: a call without one ends its attempt
 * as pending, and is attempted again once it is decided. While the store is unavailable the approver waits, as long as
 * the call may last.
 */
export function createApprover(
  records: Pick<ApprovalRecords, 'ask'>,
  { key, entering = () => undefined }: ApproverOptions,
): Approver {
  return {
    pends: true,
    async approve(request, waiting) {
      // No approval is requested for a call that may never be stored.
      await entering(request.callId)
      return patiently(() => answer(request, records, key), waiting.signal)
    },
  }
}

async function answer(request: ApprovalRequest, records: Pick<ApprovalRecords, 'ask'>, key: string): Promise<Approval> {
  const { identity, id: tool, shown, hidden, files, callId: innerId, reason, approvers = [], withinMs } = request
  const { tenant, principal } = identity
  const state = await records.ask({
    tenant,
    principal,
    tool,
    shown,
    hidden,
    files,
    innerId,
    reason,
    approvers,
    withinMs,
    // Ids of submitted calls have no dot; ids of inner calls continue after a dot.
    callId: innerId.split('.', 1)[0] ?? innerId,
    fingerprint: approvalFingerprint(request, key),
  })
  if (state.kind === 'open') {
    const { id, expiresMs } = state
    return { approved: false, pending: { id, expiresMs } }
  }
  if (state.kind === 'expired') return { approved: false, reason: 'no decision in time' }
  const { kind, by, why, as } = state
  if (kind === 'approve') return { approved: true, by, ...(as === undefined ? {} : { self: as }) }
  return { approved: false, by, reason: `${by} denied it${why === undefined ? '' : `: ${why}`}` }
}

/**
 * What an approval is bound to: another tool, definition, argument, tenant or caller needs another approval, and so
 * does other content of a file that the arguments name. It is keyed, because approvers see it and could otherwise guess
 * redacted values.
 */
function approvalFingerprint({ id, digest, args, identity, files }: ApprovalRequest, key: string): string {
  // Without files it equals the fingerprint of earlier versions, so that their pending approvals stay valid.
  const contents = files.length === 0 ? [] : [files.map((file) => [file.id, file.digest ?? null])]
  return createHmac('sha256', key)
    .update(canonicalJson([id, digest, args, identity.tenant, identity.principal, ...contents]))
    .digest('hex')
}
