import {
  codes,
  type ErrorInfo,
  type Json,
  type JsonObject,
  outcomeClassOf,
  type Result,
  type Stage,
  type Tool,
  ToolError,
  type Warning,
} from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import type { AuditEnd, AuditStart } from '../audits/audit.ts'
import { sha256 } from '../json/canonical.ts'
import { createRedactor, define, isSecretKey, type RedactionMark, type Redactor } from '../json/redact.ts'
import { within } from '../resilience/abort.ts'
import { asksApproval } from './authorize.ts'
import { attempt } from './execute.ts'
import type { PreparedTool } from './lookup.ts'
import type { Target } from './resolve.ts'
import type { Run } from './run.ts'

/** Writes the start entry of the audit log before the tool starts. A call without one is refused. */
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
  const message = 'The start of the call could not be audited, so the tool was not started.'
  return new ToolError('AUDIT_UNAVAILABLE', message, { cause: error })
}

function isPrivileged(run: Run, { entry: { tool } }: PreparedTool): boolean {
  return (tool.permissions?.length ?? 0) > 0 || tool.approval === 'always' || run.approvedBy !== undefined
}

/** Whether a call runs a program, whose code is audited whatever its permissions. Any backend of the tool may run one. */
function runsPrograms({ backend, ports }: Run, { entry: { tool } }: PreparedTool): boolean {
  if (backend?.runsPrograms === true) return true
  return (
    tool.backends.length > 1 && tool.backends.some((binding) => ports.registry.find(binding)?.runsPrograms === true)
  )
}

/** The start entry with the exact definition, the approver and the required confinement of a program. */
function intentOf(run: Run, { entry }: PreparedTool, record: AuditStart, program: boolean): AuditStart {
  return {
    ...record,
    digest: entry.digest,
    ...(run.approvedBy === undefined ? {} : { approvedBy: run.approvedBy }),
    ...(run.approvedSelf === undefined ? {} : { approvedSelf: run.approvedSelf }),
    ...(program ? { confinement: confinementOf(run, entry.tool) } : {}),
  }
}

/** The confinement that the definition and the policy require; what the call requests is in its arguments. */
function confinementOf({ backend, floor }: Run, { profile, runtime }: Tool): NonNullable<AuditStart['confinement']> {
  return {
    backend: backend?.kind ?? '',
    ...(profile === undefined ? {} : { profile }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(floor === undefined ? {} : { floor }),
  }
}

/** Bytes of JSON. Longer arguments are stored as an artifact when there is an artifact store. */
const longestArgs = 65_536

type RecordedArgs = Pick<AuditStart, 'args' | 'argsFile' | 'hidden'>

/**
 * The arguments in the audit log. Those of a program are the ones that an approver sees, so that no caller can hide code
 * by giving it the shape of a secret. In others, values that only look like a secret are hidden too, with length and digest.
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
  // An artifact with arguments has the fence 0, and is kept as long as the call.
  const kept = artifacts.put(file, { identity, callId, fence: 0 }, run.signal)
  const facts = { bytes: content.length, sha256: sha256(content) }
  return kept.then(({ id }) => ({ argsFile: { artifact: id, ...facts }, ...hidden }))
}

const mostHidden = 100

/** Writes the end entry of the audit log before the caller has the outcome. A failed write becomes a warning. */
export function recordEnd(run: Run, result: Result, thrownAt?: string): Result | Promise<Result> {
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
    ...(thrownAt === undefined ? {} : { thrownAt }),
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

/** Limits the wait, so that an audit log that never answers does not block the outcome. */
async function whenRecorded(written: Promise<void>, result: Result, ms: number): Promise<Result> {
  try {
    return await within(
      ms,
      written.then(() => result),
      () => unrecorded(result),
    )
  } catch {
    return unrecorded(result)
  }
}

/** The requested id as text; it may be any value. */
function askedFor(tool: unknown): string {
  return typeof tool === 'string' ? tool.slice(0, 300) : `(a ${typeof tool})`
}

function unrecorded(result: Result): Result {
  const warning: Warning = { code: 'AUDIT_UNAVAILABLE', message: 'The outcome could not be audited.' }
  return { ...result, warnings: [...result.warnings, warning] }
}

/** The recorded result of a call. A dry run with it passes every stage except the tool. */
export type Recorded = Pick<Result, 'output' | 'content' | 'error'>

/** Like `authorize`, but a needed approval is a warning instead of a request. */
export async function authorizeDry(run: Run, tool: PreparedTool, args: JsonObject): Promise<void> {
  if (!(await asksApproval(run, tool, args))) return
  run.warn({ code: 'APPROVAL_REQUIRED', message: `${tool.entry.id} needs approval, which a dry run does not request.` })
}

/**
 * Replaces `execute` and `normalize` in a dry run: sets the recorded output on the run, or throws the recorded failure.
 * Throws OUTCOME_UNKNOWN for null, which means that there is no record.
 */
export function standIn(run: Run, { entry }: PreparedTool, recorded: Recorded | null): void {
  run.check()
  if (recorded === null || neverRan(recorded.error)) {
    throw new ToolError(
      'OUTCOME_UNKNOWN',
      `There is no recorded result of ${entry.id}; the dry run did not execute it.`,
      {
        effect: 'none',
      },
    )
  }
  run.output = recorded.output
  run.content = recorded.content
  // The current output schema validates the output.
  if (recorded.error !== undefined && recorded.error.stage !== 'validate-output') throw failureFrom(recorded.error)
}

/** Whether a dry run has the journal of a program to run it over. */
export function isReplayed(run: Run, { backend }: Target): boolean {
  return backend.kind === 'program' && run.request.program !== undefined
}

/** Replays a program from its journal, which answers its requests and makes no calls. */
export function rerun(run: Run, tool: PreparedTool, target: Target, args: JsonObject): unknown {
  run.check()
  return attempt(run, tool, target, args, {})
}

const before: readonly Stage[] = ['lookup', 'validate-input', 'authorize', 'resolve', 'admit']

/** The record of a call that was refused before execution has no outcome of the tool. */
function neverRan(error: ErrorInfo | undefined): boolean {
  return error !== undefined && before.includes(error.stage)
}

/** A record of another version of Gantry may have an unknown code. */
function failureFrom({ code, message, stage, retryable, effect, details, cause, exception }: ErrorInfo): ToolError {
  const facts = { ...(details === undefined ? {} : { details }), ...(exception === true ? { exception } : {}) }
  const reason = cause === undefined ? {} : { cause: Object.assign(new Error(cause.message), { name: cause.name }) }
  const known = Object.hasOwn(codes, code) ? code : 'BACKEND_FAILED'
  return new ToolError(known, message, { stage, retryable, effect, ...facts, ...reason })
}

/** Arguments as an approver sees them, with the paths of hidden parts. */
interface ShownArguments {
  readonly args: JsonObject
  /** JSON Pointers. The text at each is a placeholder with length and digest. */
  readonly hidden: readonly string[]
}

/**
 * Shows arguments exactly, except the values of known secrets and of members that the schema of the tool declares under a
 * secret name. Undeclared member names, as in a map of files, and the shape of a text are chosen by the caller, and would
 * let it hide parts from the approver.
 */
export function shownArguments(
  { inputSchema }: Pick<Tool, 'inputSchema'>,
  args: JsonObject,
  values: readonly string[],
  mark: RedactionMark,
): ShownArguments {
  const declares = namesSecret(inputSchema)
  if (values.length === 0 && !declares) return { args, hidden: [] }
  const walk: Walk = {
    root: inputSchema,
    mark,
    hidden: [],
    redactor: values.length === 0 ? undefined : createRedactor({ values, mark, keys: false }),
  }
  const shown = shownMembers(walk, args, declares ? [inputSchema] : [], '')
  return { args: shown, hidden: walk.hidden }
}

interface Walk {
  readonly root: unknown
  readonly mark: RedactionMark
  readonly redactor: Redactor | undefined
  readonly hidden: string[]
}

function shownValue(walk: Walk, value: Json, schemas: readonly unknown[], path: string): Json {
  if (typeof value === 'string') return shownText(walk, value, path)
  if (typeof value !== 'object' || value === null) return value
  if (!Array.isArray(value)) return shownMembers(walk, value, schemas, path)
  const about = [...applicable(schemas, walk.root)]
  return value.map((item, index) => shownValue(walk, item, itemSchemas(about, index), `${path}/${index}`))
}

function shownMembers(walk: Walk, value: JsonObject, schemas: readonly unknown[], path: string): JsonObject {
  const about = [...applicable(schemas, walk.root)]
  const target: { [key: string]: Json } = {}
  for (const [key, member] of Object.entries(value)) {
    const shownKey = walk.redactor?.text(key) ?? key
    const at = `${path}/${escapeSegment(shownKey)}`
    const hides = member !== null && isSecretKey(key) && about.some((schema) => declared(schema, key) !== undefined)
    if (hides || shownKey !== key) walk.hidden.push(at)
    const shown = hides
      ? walk.mark(typeof member === 'string' ? member : JSON.stringify(member), 'shape')
      : shownValue(walk, member, memberSchemas(about, key), at)
    define(target, shownKey, shown)
  }
  return target
}

function shownText({ redactor, hidden }: Walk, text: string, path: string): string {
  const shown = redactor?.text(text) ?? text
  if (shown !== text) hidden.push(path)
  return shown
}

type Schema = { readonly [keyword: string]: unknown }

/** The schemas and all others that apply to the same value; each once, so that circular references terminate. */
function applicable(schemas: readonly unknown[], root: unknown): Set<Schema> {
  const found = new Set<Schema>()
  const pending = [...schemas]
  for (let schema = pending.pop(); schema !== undefined; schema = pending.pop()) {
    if (!isObject(schema) || found.has(schema)) continue
    found.add(schema)
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const list = schema[keyword]
      if (Array.isArray(list)) pending.push(...list)
    }
    for (const keyword of ['if', 'then', 'else']) pending.push(schema[keyword] ?? null)
    if (isObject(schema.dependentSchemas)) pending.push(...Object.values(schema.dependentSchemas))
    if (typeof schema.$ref === 'string') pending.push(referred(schema.$ref, root))
  }
  return found
}

/** The schema of a reference within the document; other references declare no members. */
function referred(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return null
  let found: unknown = root
  for (const segment of reference.slice(1).split('/').slice(1)) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return null
    found = Reflect.get(found, key)
  }
  return found
}

function memberSchemas(schemas: readonly Schema[], key: string): unknown[] {
  return schemas.flatMap((schema) => declared(schema, key) ?? schema.additionalProperties ?? [])
}

function itemSchemas(schemas: readonly Schema[], index: number): unknown[] {
  return schemas.flatMap(
    ({ prefixItems, items }) => (Array.isArray(prefixItems) && prefixItems[index]) || (items ?? []),
  )
}

function declared({ properties }: Schema, key: string): unknown {
  return isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined
}

/** Whether a schema declares a member that could be hidden; most schemas do not. */
function namesSecret(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  if (Array.isArray(schema)) return schema.some(namesSecret)
  return Object.entries(schema).some(
    ([key, member]) =>
      (key === 'properties' && isObject(member) && Object.keys(member).some(isSecretKey)) || namesSecret(member),
  )
}
