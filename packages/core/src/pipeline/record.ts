import { type JsonObject, outcomeClassOf, type Result, type Tool, ToolError, type Warning } from '@gantry/contract'
import type { AuditEnd, AuditStart } from '../audits/audit.ts'
import { sha256 } from '../json/canonical.ts'
import { createRedactor } from '../json/redact.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'
import { shownArguments } from './shown-arguments.ts'

/** Puts the intent on record before the tool starts; nothing runs off the record. */
export function recordStart(run: Run, tool: PreparedTool, args: JsonObject): Promise<void> | undefined {
  const { request, ports } = run
  const { entry } = tool
  if (ports.events.has('call:started')) {
    ports.events.emit('call:started', { callId: request.callId, tool: entry.id, identity: request.identity })
  }
  const record: AuditStart = {
    phase: 'start',
    at: ports.clock.iso(run.startedAt),
    callId: request.callId,
    ...parentOf(run),
    tool: entry.id,
    principal: request.identity.principal,
    tenant: request.identity.tenant,
  }
  try {
    const written = writeStart(run, tool, record, args)
    return written?.catch((error: unknown) => Promise.reject(unavailable(error)))
  } catch (error) {
    throw unavailable(error)
  }
}

function writeStart(run: Run, tool: PreparedTool, record: AuditStart, args: JsonObject): Promise<void> | undefined {
  const { audit } = run.ports
  const program = runsPrograms(run, tool)
  if (!program && !isPrivileged(run, tool)) return audit.write(record) ?? undefined
  const intent = intentOf(run, tool, record, program)
  const recorded = recordedArgs(run, tool, args, program)
  if (recorded instanceof Promise) return recorded.then((facts) => audit.write({ ...intent, ...facts }))
  return audit.write({ ...intent, ...recorded }) ?? undefined
}

function parentOf({ request: { place } }: Run): { readonly parent?: string } {
  return place?.within === undefined ? {} : { parent: place.within }
}

function unavailable(error: unknown): ToolError {
  const message = 'The intent could not be recorded, so the tool was not started.'
  return new ToolError('AUDIT_UNAVAILABLE', message, { cause: error })
}

function isPrivileged(run: Run, { entry: { tool } }: PreparedTool): boolean {
  return (tool.permissions?.length ?? 0) > 0 || tool.approval === 'always' || run.approvedBy !== undefined
}

/** A call that runs a program is recorded with it, whatever rights it needs; another backend of the tool may run one too. */
function runsPrograms({ backend, ports }: Run, { entry: { tool } }: PreparedTool): boolean {
  if (backend?.runsPrograms === true) return true
  return (
    tool.backends.length > 1 && tool.backends.some((binding) => ports.registry.find(binding)?.runsPrograms === true)
  )
}

/** The record with the exact definition, who approved the call, and how a program is to be confined. */
function intentOf(run: Run, { entry }: PreparedTool, record: AuditStart, program: boolean): AuditStart {
  return {
    ...record,
    digest: entry.digest,
    ...(run.approvedBy === undefined ? {} : { approvedBy: run.approvedBy }),
    ...(run.approvedSelf === undefined ? {} : { approvedSelf: run.approvedSelf }),
    ...(program ? { confinement: confinementOf(run, entry.tool) } : {}),
  }
}

/** What the definition and the policy demand; what the call itself asks for is among its arguments. */
function confinementOf({ backend, floor }: Run, { profile, runtime }: Tool): NonNullable<AuditStart['confinement']> {
  return {
    backend: backend?.kind ?? '',
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(floor === undefined ? {} : { floor }),
  }
}

/** Bytes of JSON; longer arguments are kept as a file where there is a place for files. */
const longestArgs = 65_536

type RecordedArgs = Pick<AuditStart, 'args' | 'argsFile' | 'hidden'>

/**
 * The arguments on record. Those of a program are recorded as an approver sees them, so that no caller can hide code by
 * giving it the shape of a secret; of others also what only looks like one is hidden, with its length and digest.
 */
function recordedArgs(
  run: Run,
  { entry: { tool } }: PreparedTool,
  args: JsonObject,
  program: boolean,
): RecordedArgs | Promise<RecordedArgs> {
  const { mark, keepsFiles, artifacts } = run.ports
  const values = run.concealed()
  const shown = program
    ? shownArguments(tool, args, values, mark)
    : { args: createRedactor({ values, mark }).value(args), hidden: [] }
  const hidden = shown.hidden.length === 0 ? {} : { hidden: shown.hidden.slice(0, mostHidden) }
  const content = keepsFiles ? Buffer.from(JSON.stringify(shown.args)) : undefined
  if (content === undefined || content.length <= longestArgs) return { args: shown.args, ...hidden }
  const file = { name: 'arguments.json', mimeType: 'application/json', content }
  const { identity, callId } = run.request
  // What holds the arguments of a call has the fence 0, and stays as long as the call.
  const kept = artifacts.put(file, { identity, callId, fence: 0 }, run.signal)
  const facts = { bytes: content.length, sha256: sha256(content) }
  return kept.then(({ id }) => ({ argsFile: { artifact: id, ...facts }, ...hidden }))
}

const mostHidden = 100

/** Puts the outcome on record before the caller has it; a record that fails becomes a warning on the result. */
export function recordEnd(run: Run, result: Result): Result | Promise<Result> {
  const { request, ports } = run
  const record: AuditEnd = {
    phase: 'end',
    at: ports.clock.iso(run.startedAt + Math.round(result.durationMs)),
    callId: request.callId,
    ...parentOf(run),
    tool: run.tool?.entry.id ?? askedFor(request.tool),
    principal: request.identity.principal,
    tenant: request.identity.tenant,
    status: result.status,
    outcome: outcomeClassOf(result),
    attempts: result.attempts,
    durationMs: result.durationMs,
    ...(result.runtime === undefined ? {} : { runtime: result.runtime }),
  }
  try {
    const written = ports.audit.write(result.error === undefined ? record : { ...record, ...failureOf(result) })
    return written === undefined ? result : whenRecorded(written, result, ports.limits.auditMs)
  } catch {
    return unrecorded(result)
  }
}

function failureOf({ status, error }: Result): Pick<AuditEnd, 'code' | 'reason'> {
  if (error === undefined) return {}
  return status === 'denied' ? { code: error.code, reason: error.message } : { code: error.code }
}

/** An audit that never answers may not keep an outcome from its caller for ever. */
async function whenRecorded(written: Promise<void>, result: Result, ms: number): Promise<Result> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('The audit did not answer.')), ms)
  try {
    await Promise.race([written, late.promise])
    return result
  } catch {
    return unrecorded(result)
  } finally {
    clearTimeout(timer)
  }
}

/** What was asked for may be anything; the record says so in words. */
function askedFor(tool: unknown): string {
  return typeof tool === 'string' ? tool.slice(0, 300) : `(a ${typeof tool})`
}

function unrecorded(result: Result): Result {
  const warning: Warning = { code: 'AUDIT_UNAVAILABLE', message: 'The outcome could not be recorded.' }
  return { ...result, warnings: [...result.warnings, warning] }
}
