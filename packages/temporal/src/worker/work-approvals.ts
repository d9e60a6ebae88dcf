import { createHash } from 'node:crypto'
import type { Approval, ApprovalRequest, Approver } from '@gantry/core'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { ApprovalDecision, AskedApproval } from '../protocol/work.ts'

/** The approvals of the calls of a worker: requests wait in Temporal, and decisions come with the next attempt. */
export interface WorkApprovals {
  /** The approver that the executor of the worker needs. */
  readonly approver: Approver
  /** Makes a call with the decision on it, if there is one; returns what the call asks, if it asks. */
  during<T>(
    callId: string,
    decision: ApprovalDecision | undefined,
    work: () => Promise<T>,
  ): Promise<{ readonly value: T; readonly asked: AskedApproval | undefined }>
}

interface Scope {
  readonly decision: ApprovalDecision | undefined
  asked: AskedApproval | undefined
}

const usualExpiryMs = 86_400_000

/** `expiryMs` is how long a call waits for a decision; a day when absent. */
export function createWorkApprovals(expiryMs: number = usualExpiryMs): WorkApprovals {
  const scopes = new Map<string, Scope>()
  return {
    approver: {
      pends: true,
      async approve(request) {
        const scope = scopes.get(request.callId)
        const asked = askedOf(request, expiryMs)
        if (scope?.decision?.approvalId === asked.approvalId) return decided(scope.decision, request)
        if (scope !== undefined) scope.asked = asked
        return { approved: false, pending: { id: asked.approvalId, expiresMs: asked.expiresMs } }
      },
    },
    async during(callId, decision, work) {
      const scope: Scope = { decision, asked: undefined }
      scopes.set(callId, scope)
      try {
        const value = await work()
        return { value, asked: scope.asked }
      } finally {
        scopes.delete(callId)
      }
    },
  }
}

function askedOf(
  { callId, id, digest, identity, reason, shown, files, approvers }: ApprovalRequest,
  expiryMs: number,
): AskedApproval {
  const what = canonicalJson({ callId, id, digest, shown, files: files.map((file) => ({ ...file })) })
  return {
    approvalId: createHash('sha256').update(what).digest('hex').slice(0, 32),
    callId,
    tool: id,
    principal: identity.principal,
    tenant: identity.tenant,
    reason,
    shown,
    ...(approvers === undefined ? {} : { approvers }),
    expiresMs: Date.now() + expiryMs,
  }
}

/** The caller of a call does not decide on it. */
function decided({ approved, by, reason }: ApprovalDecision, { identity }: ApprovalRequest): Approval {
  if (approved && by === identity.principal) {
    return { approved: false, by, reason: 'The caller of a call cannot approve it.' }
  }
  return { approved, by, ...(reason === undefined ? {} : { reason }) }
}
