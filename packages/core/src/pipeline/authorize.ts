import { type ApprovalFile, type Identity, type Json, type JsonObject, type Tool, ToolError } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { Artifacts } from '../artifacts/artifact.ts'
import {
  type Approval,
  type ApprovalRequest,
  type Decision,
  knownDecision,
  type PolicyRequest,
} from '../policies/policy.ts'
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

/** As many as a sandbox takes; and characters of all pointers and ids, because a long key stands before each file below it. */
const most = { files: 1_000, characters: 262_144 } as const
/** A longer text under `artifact` is something else. */
const longestId = 256

/**
 * Where arguments name files: every text under the key `artifact`, as in `{"artifact": id}` of a program's files.
 * - Errors: INPUT_INVALID for more than an approver is shown.
 */
export function namedFiles(args: JsonObject): readonly Pick<ApprovalFile, 'path' | 'id'>[] {
  const named: Pick<ApprovalFile, 'path' | 'id'>[] = []
  let characters = 0
  const note = (path: string, id: string): void => {
    if (id.length > longestId) return
    characters += path.length + id.length
    if (named.push({ path, id }) > most.files || characters > most.characters) throw tooMany()
  }
  const look = (value: Json, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, member] of Object.entries(value)) {
      if (typeof member === 'object') look(member, `${path}/${escapeSegment(key)}`)
      else if (key === 'artifact' && typeof member === 'string') note(`${path}/artifact`, member)
    }
  }
  look(args, '')
  return named
}

function tooMany(): ToolError {
  const message =
    `The arguments name more than ${most.files} artifacts, or under longer keys than an approver is shown; ` +
    'name fewer, or put them into one file.'
  return new ToolError('INPUT_INVALID', message, {
    details: { issues: [{ path: '', message: 'names too many artifacts' }] },
  })
}

/** What the caller's ids stand for now. */
async function describeFiles(
  named: readonly Pick<ApprovalFile, 'path' | 'id'>[],
  { ports, request, signal }: Pick<Run, 'ports' | 'request' | 'signal'>,
): Promise<readonly ApprovalFile[]> {
  const known = new Map<string, Omit<ApprovalFile, 'path'>>()
  for (const { id } of named) {
    if (known.has(id)) continue
    try {
      const { name, mimeType, bytes, digest } = await ports.artifacts.info(id, request.identity, signal)
      known.set(id, { id, name, mimeType, bytes, digest })
    } catch (error) {
      if (!ToolError.is(error) || error.code !== 'NOT_FOUND') throw error
      known.set(id, { id })
    }
  }
  return named.map(({ path, id }) => ({ path, ...(known.get(id) ?? { id }) }))
}

/**
 * The same files, of which those that were approved have the approved digest.
 * - Errors: DENIED for an id whose content is another by now.
 */
function approvedArtifacts(artifacts: Artifacts, files: readonly ApprovalFile[]): Artifacts {
  const approved = new Map(files.map(({ id, digest }) => [id, digest]))
  const check = (id: string, digest: string): void => {
    if (approved.has(id) && approved.get(id) !== digest) {
      throw new ToolError('DENIED', `The artifact ${id} is not the file that was approved; make the call again.`)
    }
  }
  return {
    put: (file, maker, signal) => artifacts.put(file, maker, signal),
    async info(id, reader, signal) {
      const info = await artifacts.info(id, reader, signal)
      check(id, info.digest)
      return info
    },
    async read(id, reader, range, signal) {
      const read = await artifacts.read(id, reader, range, signal)
      check(id, read.artifact.digest)
      return read
    },
    list: (query, reader, signal) => artifacts.list(query, reader, signal),
    remove: (id, reader, signal) => artifacts.remove(id, reader, signal),
  }
}
