import { type JsonObject, type Result, ToolError, type Warning } from '@gantry/contract'
import type { AuditEnd, AuditStart } from '../audits/audit.ts'
import { createRedactor } from '../json/redact.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

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
    tool: entry.id,
    principal: request.identity.principal,
    tenant: request.identity.tenant,
  }
  try {
    const written = ports.audit.write(isPrivileged(run, tool) ? withArgs(run, record, args) : record)
    return written?.catch((error: unknown) => Promise.reject(unavailable(error)))
  } catch (error) {
    throw unavailable(error)
  }
}

function unavailable(error: unknown): ToolError {
  const message = 'The intent could not be recorded, so the tool was not started.'
  return new ToolError('AUDIT_UNAVAILABLE', message, { cause: error })
}

function isPrivileged(run: Run, { entry: { tool } }: PreparedTool): boolean {
  return (tool.permissions?.length ?? 0) > 0 || tool.approval === 'always' || run.approvedBy !== undefined
}

/** Privileged calls are recorded with the exact definition and their arguments, without what their keys say is secret. */
function withArgs(run: Run, record: AuditStart, args: JsonObject): AuditStart {
  const digest = run.tool?.entry.digest ?? ''
  const byKey = createRedactor().value(args)
  const shown: AuditStart = { ...record, digest, args: run.redactor?.value(byKey) ?? byKey }
  return run.approvedBy === undefined ? shown : { ...shown, approvedBy: run.approvedBy }
}

/** Puts the outcome on record before the caller has it; a record that fails becomes a warning on the result. */
export function recordEnd(run: Run, result: Result): Result | Promise<Result> {
  const { request, ports } = run
  const record: AuditEnd = {
    phase: 'end',
    at: ports.clock.iso(run.startedAt + Math.round(result.durationMs)),
    callId: request.callId,
    tool: run.tool?.entry.id ?? askedFor(request.tool),
    principal: request.identity.principal,
    tenant: request.identity.tenant,
    status: result.status,
    attempts: result.attempts,
    durationMs: result.durationMs,
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
