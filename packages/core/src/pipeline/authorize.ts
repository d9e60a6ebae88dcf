import { type ApprovalFile, type Identity, type JsonObject, type Tool, ToolError } from '@gantry/contract'
import type { Approval, ApprovalRequest, Decision, PolicyRequest } from '../policies/policy.ts'
import { knownDecision } from '../policies/strictest.ts'
import { approvedArtifacts, describeFiles, namedFiles } from './approved-files.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'
import { shownArguments } from './shown-arguments.ts'

/** Lets a call pass only when the identity holds the tool's permissions, the policy allows it, and whoever must approve has. */
export function authorize(run: Run, tool: PreparedTool, args: JsonObject): void | Promise<void> {
  const request = toDecide(run, tool, args)
  if (request === undefined) return undefined
  const decision = ask(run, request)
  return decision instanceof Promise ? decision.then((one) => pass(run, request, one)) : pass(run, request, decision)
}

function pass(run: Run, request: PolicyRequest, decision: Decision): void | Promise<void> {
  const need = needOf(run, request, decision)
  return need === undefined ? undefined : approve(run, request, need)
}

/** The same, up to the person: whether somebody would have to approve the call. Throws what refuses it. */
export async function asksApproval(run: Run, tool: PreparedTool, args: JsonObject): Promise<boolean> {
  const request = toDecide(run, tool, args)
  return request !== undefined && needOf(run, request, await ask(run, request)) !== undefined
}

/** What is left to decide once the permissions are held; undefined when nothing is. */
function toDecide(run: Run, { entry }: PreparedTool, args: JsonObject): PolicyRequest | undefined {
  const { identity } = run.request
  const [permission] = missingPermissions(identity, entry.tool)
  if (permission !== undefined) {
    throw new ToolError('DENIED', `${identity.principal} lacks the permission ${permission} that ${entry.key} needs.`)
  }
  if (run.ports.policy === undefined && entry.tool.approval !== 'always') return undefined
  return { identity, id: entry.id, tool: entry.tool, args }
}

type Need = Pick<ApprovalRequest, 'reason' | 'rule' | 'approvers'>

/** What an allowed call still needs: the approval of somebody, for a reason; undefined when nothing. Else throws. */
function needOf(run: Run, request: PolicyRequest, decision: Decision): Need | undefined {
  const { rule } = decision
  const grounds = rule === undefined ? {} : { rule }
  const facts = rule === undefined ? {} : { details: grounds }
  if (decision.effect === 'deny') throw new ToolError('DENIED', `${request.id} is denied: ${decision.reason}`, facts)
  if (decision.effect === 'unavailable') {
    const { cause, reason } = decision
    throw new ToolError('POLICY_UNAVAILABLE', `No decision on ${request.id}: ${reason}`, { cause, ...facts })
  }
  run.floor = decision.floor
  if (decision.effect === 'ask') {
    const { reason, approvers } = decision
    return { reason, ...grounds, ...(approvers === undefined ? {} : { approvers }) }
  }
  return request.tool.approval === 'always' ? { reason: everyCall } : undefined
}

/** Why a tool that declares `approval: 'always'` asks. */
export const everyCall = 'The tool asks for approval of every call.'

/** What the policy says; not waited for where it says so at once. Never rejects but for a run that is stopped. */
export function ask(run: Run, request: PolicyRequest): Decision | Promise<Decision> {
  const { policy } = run.ports
  if (policy === undefined) return { effect: 'allow' }
  const failed = (cause: unknown): Decision => {
    if (run.stopped !== undefined) throw run.stopped
    return { effect: 'unavailable', reason: 'The policy failed.', cause }
  }
  try {
    const answer = policy.decide(request, run)
    return answer instanceof Promise ? run.within(answer).then(knownDecision, failed) : knownDecision(answer)
  } catch (error) {
    return failed(error)
  }
}

async function approve(run: Run, request: PolicyRequest, need: Need): Promise<void> {
  const { approver, limits } = run.ports
  if (approver === undefined) {
    throw new ToolError('APPROVAL_REQUIRED', `${request.id} needs approval: ${need.reason}`)
  }
  if (approver.pends === true && run.request.place?.unattended === true) {
    const message = `${request.id} needs approval, which a call inside a tool cannot wait for: ${need.reason}`
    throw new ToolError('APPROVAL_REQUIRED', message)
  }
  const { approvalMs: withinMs } = limits
  const late =
    approver.pends === true
      ? new ToolError('POLICY_UNAVAILABLE', `No answer on ${request.id}: the approver is too slow.`)
      : new ToolError('APPROVAL_REQUIRED', `Nobody approved ${request.id} within ${withinMs} ms.`)
  const { args: shown, hidden } = shownArguments(request.tool, request.args, run.concealed(), run.ports.mark)
  const call = { callId: run.request.callId, digest: run.tool?.entry.digest ?? '', shown, hidden }
  const named = namedFiles(request.args)
  let files: readonly ApprovalFile[] = []
  const asking = async (): Promise<Approval> => {
    if (named.length > 0) files = await describeFiles(named, run)
    return approver.approve({ ...request, ...call, files, ...need, withinMs }, run)
  }
  const patienceMs = approver.pends === true ? limits.maxTimeoutMs : withinMs
  const answer = await run.aside(asking(), patienceMs, late).catch((error: unknown) => {
    if (run.stopped !== undefined) throw run.stopped
    throw new ToolError('POLICY_UNAVAILABLE', `No answer on ${request.id}: the approver failed.`, { cause: error })
  })
  if (answer?.pending !== undefined) {
    const { id: approvalId, expiresMs } = answer.pending
    const message = `${request.id} waits for approval: ${need.reason}`
    throw new ToolError('APPROVAL_REQUIRED', message, { details: { approvalId, expiresMs } })
  }
  if (answer?.approved !== true) {
    throw new ToolError('DENIED', `${request.id} was not approved: ${answer?.reason ?? 'no reason was given'}`)
  }
  run.approvedBy = answer.by ?? 'unnamed'
  run.approvedSelf = answer.self
  if (files.length > 0) run.approvedArtifacts = approvedArtifacts(run.ports.artifacts, files)
}

/** What a tool asks for and the identity does not hold. */
export function missingPermissions(identity: Identity, { permissions }: Pick<Tool, 'permissions'>): readonly string[] {
  return permissions === undefined ? none : permissions.filter((permission) => !holds(identity, permission))
}

const none: readonly never[] = Object.freeze([])

/** Whether an identity holds a permission: by its name, by `prefix:*`, or by `*`. */
export function holds(identity: Identity, permission: string): boolean {
  return identity.permissions.some(
    (held) => held === permission || held === '*' || (held.endsWith(':*') && permission.startsWith(held.slice(0, -1))),
  )
}
