import { type Issue, type Json, type JsonObject, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { quote } from '@gantry/core/internal/ids/quote'
import { parseJson } from '@gantry/core/internal/json/parse'
import { copyJson, JsonError } from '@gantry/core/internal/json/plain'
import { nearest } from '@gantry/core/internal/search/index'
import type { Adapter, AdapterCall, RefusedCall } from './adapter.ts'
import type { Names } from './names.ts'

/** One call of a message, not validated yet. */
interface RawCall {
  readonly id: unknown
  readonly name: unknown
  /** A value, or its JSON text. */
  readonly args: unknown
}

const mostCalls = 128
const longestId = 256
const longestName = 256

/**
 * Reads the calls of a message. An invalid message is refused as a whole; a call with an invalid tool or invalid
 * arguments is refused alone. `idNeeded`: the format requires an id to answer a call.
 */
export function readCalls(
  raw: () => readonly RawCall[],
  names: Names,
  idNeeded: boolean,
  adjust: (args: JsonObject, name: string) => JsonObject = (args) => args,
): readonly (AdapterCall | RefusedCall)[] {
  const found = guarded(raw)
  if (found.length > mostCalls) throw malformed(`it has ${found.length} calls; ${mostCalls} is the most`)
  const seen = new Set<string>()
  const heads = found.map((call) => headOf(call, idNeeded, seen))
  return heads.map((head) => readCall(head, names, adjust))
}

interface Head {
  readonly callId?: string
  readonly name: string
  readonly args: unknown
}

/** A message that throws when it is read becomes a ToolError. */
function guarded<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (ToolError.is(error)) throw error
    throw new ToolError('PAYLOAD_INVALID', 'The message of the model could not be read.', { cause: error })
  }
}

function headOf(call: RawCall, idNeeded: boolean, seen: Set<string>): Head {
  const { id, name, args } = guarded(() => ({ id: call.id, name: call.name, args: call.args }))
  if (typeof name !== 'string' || name === '' || name.length > longestName) {
    throw malformed(`the name of a call must be a text of 1 to ${longestName} characters`)
  }
  if (id === undefined || id === null) {
    if (idNeeded) throw malformed('a call has no id')
    return { name, args }
  }
  if (typeof id !== 'string' || id === '' || id.length > longestId) {
    throw malformed(`the id of a call must be a text of 1 to ${longestId} characters`)
  }
  if (seen.has(id)) throw malformed(`two calls have the id ${quote(id)}`)
  seen.add(id)
  return { callId: id, name, args }
}

function readCall(
  { callId, name, args }: Head,
  names: Names,
  adjust: (args: JsonObject, name: string) => JsonObject,
): AdapterCall | RefusedCall {
  const given = callId === undefined ? { name } : { callId, name }
  const entry = names.find(name)
  if (entry === undefined) return { ok: false, ...given, error: unknownTool(name, names) }
  try {
    return { ok: true, ...given, tool: entry.id, args: adjust(readArgs(args), name), schemaDigest: entry.digest }
  } catch (error) {
    if (ToolError.is(error)) return { ok: false, ...given, error }
    throw error
  }
}

/** The arguments as plain JSON. A string is parsed strictly; an empty string or no value means no arguments. */
function readArgs(args: unknown): JsonObject {
  if (args === undefined || args === null) return {}
  try {
    const value: Json = typeof args === 'string' ? parseText(args) : copyJson(args)
    if (isObject(value)) return value
    throw wrongArgs({ path: '', message: 'must be a JSON object' })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw wrongArgs({ path: error.path, message: error.message }, error)
  }
}

function parseText(text: string): Json {
  return text.trim() === '' ? {} : parseJson(text)
}

function wrongArgs(issue: Issue, cause?: unknown): ToolError {
  const where = issue.path === '' ? 'The arguments' : `The arguments at ${issue.path}`
  const details = { issues: [issue] }
  const options = cause === undefined ? { details } : { details, cause }
  return new ToolError('INPUT_INVALID', `${where} cannot be read: ${issue.message}.`, options)
}

function unknownTool(name: string, names: Names): ToolError {
  const near = nearest(name, names.list)
  return new ToolError('TOOL_NOT_FOUND', `There is no tool ${quote(name)}.`, { details: { nearest: near } })
}

/** The error of a message that is not one of the format. */
export function malformed(reason: string): ToolError {
  return new ToolError('PAYLOAD_INVALID', `The message of the model is wrong: ${reason}.`)
}

/** A member of a foreign value that should be an object. */
export function member(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
  return Reflect.get(value, key)
}

/** Arguments of a format with values: a string there is a value and not JSON to be parsed. */
export function valueOnly(args: unknown): unknown {
  return typeof args === 'string' ? [args] : args
}

/** A foreign value that should be a list; `what` names it in the error. */
export function listOf(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw malformed(`${what} must be a list`)
}

/** Runs one call; usually `executor.run`, with the caller's identity and signal put in by the host. */
export type RunCall = (tool: string, args: JsonObject, options: { readonly schemaDigest: string }) => Promise<Result>

/**
 * Runs all calls of a message concurrently and returns their result messages in the order of the calls. A refused call
 * has a result message too. Rejects with PAYLOAD_INVALID when the message itself is invalid.
 */
export async function answerCalls<R>(
  adapter: Adapter<unknown, R>,
  message: unknown,
  names: Names,
  run: RunCall,
): Promise<R[]> {
  return Promise.all(
    adapter.calls(message, names).map(async (call) => {
      const outcome = call.ok ? await run(call.tool, call.args, { schemaDigest: call.schemaDigest }) : call.error
      return adapter.result(call, outcome)
    }),
  )
}
