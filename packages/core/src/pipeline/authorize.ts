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
import type { PreparedTool } from './lookup.ts'
import { shownArguments } from './record.ts'
import type { Run } from './run.ts'

/** Requires the permissions of the tool, a policy decision that allows the call, and every approval that it needs. */
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

/** Like `authorize`, but returns whether the call needs approval instead of requesting it. Throws the refusal. */
export async function asksApproval(run: Run, tool: PreparedTool, args: JsonObject): Promise<boolean> {
  const request = toDecide(run, tool, args)
  return request !== undefined && needOf(run, request, await ask(run, request)) !== undefined
}

/** Checks the permissions. Returns the request for the policy; undefined when there is nothing left to decide. */
function toDecide(run: Run, { entry }: PreparedTool, args: JsonObject): PolicyRequest | undefined {
  const { identity } = run.request
  const [permission] = missingPermissions(identity, entry.tool)
  if (permission !== undefined) {
    const message = `${identity.principal} lacks the permission ${permission} that ${entry.key} needs.`
    throw new ToolError('DENIED', message, { details: { permission } })
  }
  if (run.ports.policy === undefined && entry.tool.approval !== 'always') return undefined
  return { identity, id: entry.id, tool: entry.tool, args }
}

type Need = Pick<ApprovalRequest, 'reason' | 'rule' | 'approvers'>

/** The approval that an allowed call needs, with its reason; undefined when it needs none. Throws the refusal. */
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

/** The reason given for a tool that declares `approval: 'always'`. */
export const everyCall = 'The tool asks for approval of every call.'

/** The decision of the policy, synchronous if the policy is. Rejects only when the run is stopped. */
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
    const message = `${request.id} needs approval, and an inner call cannot wait for it: ${need.reason}`
    throw new ToolError('APPROVAL_REQUIRED', message)
  }
  const { approvalMs: withinMs } = limits
  const late =
    approver.pends === true
      ? new ToolError('POLICY_UNAVAILABLE', `No decision on ${request.id}: the approver timed out.`)
      : new ToolError('APPROVAL_REQUIRED', `${request.id} was not approved within ${withinMs} ms.`)
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
    throw new ToolError('POLICY_UNAVAILABLE', `No decision on ${request.id}: the approver failed.`, { cause: error })
  })
  if (answer?.pending !== undefined) {
    const { id: approvalId, expiresMs } = answer.pending
    const message = `${request.id} waits for approval: ${need.reason}`
    throw new ToolError('APPROVAL_REQUIRED', message, { details: { approvalId, expiresMs } })
  }
  if (answer?.approved !== true) {
    const message = `${request.id} was not approved: ${answer?.reason ?? 'no reason was given'}`
    throw new ToolError('DENIED', message, { details: { approval: 'denied' } })
  }
  run.approvedBy = answer.by ?? 'unnamed'
  run.approvedSelf = answer.self
  if (files.length > 0) run.approvedArtifacts = approvedArtifacts(run.ports.artifacts, files)
}

/** The permissions of the tool that the identity lacks. */
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

/** `files` is the limit of a sandbox. `characters` bounds all paths and ids: a long key is repeated for each file below it. */
const most = { files: 1_000, characters: 262_144 } as const
/** A longer text under `artifact` is not an artifact id. */
const longestId = 256

/**
 * The files that arguments name: every text under the key `artifact`, as in `{"artifact": id}` of a program's files.
 * - Errors: INPUT_INVALID for more files, or longer paths, than an approval request holds.
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
    `The arguments name more than ${most.files} artifacts, or under longer keys than an approval request holds; ` +
    'name fewer, or put them into one file.'
  return new ToolError('INPUT_INVALID', message, {
    details: { issues: [{ path: '', message: 'names too many artifacts' }] },
  })
}

/** The current digest, length and type of the caller's artifacts. */
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
 * The same artifacts, with the digests of the approved ones verified at each read.
 * - Errors: DENIED for an artifact whose content has changed since the approval.
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
