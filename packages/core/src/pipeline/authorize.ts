import { type Identity, type JsonObject, ToolError } from '@gantry/contract'
import type { Approval, Decision, PolicyRequest } from '../policies/policy.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** Lets a call pass only when the identity holds the tool's permissions, the policy allows it, and whoever must approve has. */
export function authorize(run: Run, tool: PreparedTool, args: JsonObject): void | Promise<void> {
  const request = toDecide(run, tool, args)
  return request === undefined ? undefined : authorizeByPolicy(run, request)
}

async function authorizeByPolicy(run: Run, request: PolicyRequest): Promise<void> {
  const need = needOf(request, await ask(run, request))
  if (need !== undefined) await approve(run, request, need.reason)
}

/** The same, up to the person: whether somebody would have to approve the call. Throws what refuses it. */
export async function asksApproval(run: Run, tool: PreparedTool, args: JsonObject): Promise<boolean> {
  const request = toDecide(run, tool, args)
  return request !== undefined && needOf(request, await ask(run, request)) !== undefined
}

/** What is left to decide once the permissions are held; undefined when nothing is. */
function toDecide(run: Run, { entry }: PreparedTool, args: JsonObject): PolicyRequest | undefined {
  const { identity } = run.request
  for (const permission of entry.tool.permissions ?? []) {
    if (!holds(identity, permission)) {
      throw new ToolError('DENIED', `${identity.principal} lacks the permission ${permission} that ${entry.key} needs.`)
    }
  }
  if (run.ports.policy === undefined && entry.tool.approval !== 'always') return undefined
  return { identity, id: entry.id, tool: entry.tool, args }
}

/** What an allowed call still needs: the approval of somebody, for a reason; undefined when nothing. Else throws. */
function needOf(request: PolicyRequest, decision: Decision): { readonly reason: string } | undefined {
  if (decision.effect === 'deny') throw new ToolError('DENIED', `${request.id} is denied: ${decision.reason}`)
  if (decision.effect === 'unavailable') {
    throw new ToolError('POLICY_UNAVAILABLE', `No decision on ${request.id}: ${decision.reason}`, {
      cause: decision.cause,
    })
  }
  if (decision.effect === 'ask') return { reason: decision.reason }
  return request.tool.approval === 'always' ? { reason: 'The tool asks for approval of every call.' } : undefined
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
