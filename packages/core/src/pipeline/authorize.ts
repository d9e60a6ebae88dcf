import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import type { Approval, Decision, PolicyRequest } from '../policies/policy.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** Lets a call pass only when the identity holds the tool's permissions, the policy allows it, and whoever must approve has. */
export function authorize(run: Run, tool: PreparedTool, args: JsonObject): void | Promise<void> {
  const { entry } = tool
  const { identity } = run.request
  for (const permission of entry.tool.permissions ?? []) {
    if (!holds(identity, permission)) {
      throw new ToolError('DENIED', `${identity.principal} lacks the permission ${permission} that ${entry.key} needs.`)
    }
  }
  const { policy } = run.ports
  if (policy === undefined && entry.tool.approval !== 'always') return
  return decide(run, { identity, id: entry.id, tool: entry.tool, args })
}

async function decide(run: Run, request: PolicyRequest): Promise<void> {
  const decision = await ask(run, request)
  if (decision.effect === 'deny') throw new ToolError('DENIED', `${request.id} is denied: ${decision.reason}`)
  if (decision.effect === 'unavailable') {
    throw new ToolError('POLICY_UNAVAILABLE', `No decision on ${request.id}: ${decision.reason}`, {
      cause: decision.cause,
    })
  }
  if (decision.effect === 'ask') await approve(run, request, decision.reason)
  else if (request.tool.approval === 'always') await approve(run, request, 'The tool asks for approval of every call.')
}

async function ask(run: Run, request: PolicyRequest): Promise<Decision> {
  const { policy } = run.ports
  if (policy === undefined) return { effect: 'allow' }
  try {
    const answer = policy.decide(request, run)
    return known(answer instanceof Promise ? await run.within(answer) : answer)
  } catch (error) {
    if (run.stopped !== undefined) throw run.stopped
    return { effect: 'unavailable', reason: 'The policy failed.', cause: error }
  }
}

/** A policy that answers anything but the four words has not allowed the call. */
function known(decision: Decision): Decision {
  const words: readonly unknown[] = ['allow', 'deny', 'ask', 'unavailable']
  return words.includes(decision?.effect) ? decision : { effect: 'unavailable', reason: 'The policy gave no decision.' }
}

async function approve(run: Run, request: PolicyRequest, reason: string): Promise<void> {
  const { approver, limits } = run.ports
  if (approver === undefined) {
    throw new ToolError('APPROVAL_REQUIRED', `${request.id} needs approval: ${reason}`)
  }
  const late = new ToolError('APPROVAL_REQUIRED', `Nobody approved ${request.id} within ${limits.approvalMs} ms.`)
  const asking = async (): Promise<Approval> => approver.approve({ ...request, reason }, run)
  const answer = await run.aside(asking(), limits.approvalMs, late).catch((error: unknown) => {
    if (run.stopped !== undefined) throw run.stopped
    throw new ToolError('POLICY_UNAVAILABLE', `No answer on ${request.id}: the approver failed.`, { cause: error })
  })
  if (answer?.approved !== true) {
    throw new ToolError('DENIED', `${request.id} was not approved: ${answer?.reason ?? 'no reason was given'}`)
  }
  run.approvedBy = answer.by ?? 'unnamed'
}

/** Whether an identity holds a permission: by its name, by `prefix:*`, or by `*`. */
export function holds(identity: Identity, permission: string): boolean {
  return identity.permissions.some(
    (held) => held === permission || held === '*' || (held.endsWith(':*') && permission.startsWith(held.slice(0, -1))),
  )
}
