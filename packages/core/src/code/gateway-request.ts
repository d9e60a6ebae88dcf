import { type Issue, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { quote } from '../ids/quote.ts'
import { loneSurrogateIn } from '../json/parse.ts'
import { defaultJsonLimits } from '../json/plain.ts'
import type { ProgramRequest } from '../runtimes/runtime.ts'

/** A parsed gateway request of a program; its content is as hostile as the program. */
export type GatewayRequest =
  | { readonly kind: 'call'; readonly tool: string; readonly args: Json | undefined }
  | { readonly kind: 'chain'; readonly steps: Json | undefined; readonly input: Json | undefined }
  | { readonly kind: 'search'; readonly words: string; readonly limit: number | undefined }
  | { readonly kind: 'describe'; readonly tool: string; readonly level: string | undefined }
  | { readonly kind: 'examples'; readonly tool: string }
  | { readonly kind: 'put'; readonly name: string; readonly content: string | Uint8Array; readonly mimeType?: string }
  | { readonly kind: 'get'; readonly id: string }
  | { readonly kind: 'sleep'; readonly ms: number }
  /** Malformed; the error is the outcome of the request, in its order like any other. */
  | { readonly kind: 'wrong'; readonly error: ToolError }

/** Longer requests are not parsed, because parsing would block the event loop. */
const longest = { artifact: 24_000_000, other: 4_194_304 }

/** A malformed request is `wrong`, with INPUT_INVALID. */
export function readGatewayRequest(request: ProgramRequest): GatewayRequest {
  try {
    return read(request)
  } catch (error) {
    if (ToolError.is(error)) return { kind: 'wrong', error }
    throw error
  }
}

function read({ kind, text }: ProgramRequest): GatewayRequest {
  if (text.length > (kind === 'artifact' ? longest.artifact : longest.other)) {
    throw new ToolError('INPUT_INVALID', 'The gateway request is too large.', { effect: 'none' })
  }
  if (hasMoreMembers(text, defaultJsonLimits.nodes)) throw tooMany(defaultJsonLimits.nodes)
  const value = objectIn(text)
  switch (kind) {
    case 'call':
      return { kind, tool: textOf(value.tool, 'tool'), args: value.args }
    case 'chain':
      return { kind, steps: value.steps, input: value.input }
    case 'search':
      return { kind, words: textOf(value.words, 'words'), limit: numberOf(value.limit, 'limit') }
    case 'describe':
      return { kind, tool: textOf(value.tool, 'tool'), level: optionalText(value.level, 'level') }
    case 'examples':
      return { kind, tool: textOf(value.tool, 'tool') }
    case 'artifact':
      return readArtifact(value)
    case 'sleep':
      return { kind, ms: timeOf(value.ms) }
    default:
      throw wrong('kind', `must not be ${quote(kind)}`)
  }
}

const [quoteSign, escapeSign, comma, brace, bracket] = Array.from('"\\,{[', (sign) => sign.charCodeAt(0))

/** Members of a request around its arguments. */
const ownMembers = 8

/** Whether a JSON text has more members than arguments may; counted before it is parsed, because parsing takes far longer. */
function hasMoreMembers(text: string, most: number): boolean {
  if (text.length <= most * 2) return false
  let left = most + ownMembers
  let inText = false
  for (let at = 0; at < text.length; at++) {
    const sign = text.charCodeAt(at)
    if (sign === quoteSign) inText = !inText
    else if (inText && sign === escapeSign) at++
    else if (!inText && (sign === comma || opensMembers(text, at, sign)) && --left < 0) return true
  }
  return false
}

/** Whether a non-empty list or object begins here. In ASCII a closing bracket is two after its opening one. */
function opensMembers(text: string, at: number, sign: number): boolean {
  return (sign === brace || sign === bracket) && text.charCodeAt(at + 1) !== sign + 2
}

/** The driver of a program writes JSON, but a program that bypasses the driver can write anything. */
function objectIn(text: string): JsonObject {
  let value: Json | undefined
  try {
    value = JSON.parse(text)
  } catch {
    // Refused below.
  }
  if (!isObject(value)) {
    throw wrong('request', 'must be a JSON object')
  }
  const half = loneSurrogateIn(text, value)
  if (half !== undefined) throw wrongAt(half.path, half)
  return value
}

function readArtifact({ put, get }: JsonObject): GatewayRequest {
  if (typeof get === 'string') return { kind: 'get', id: get }
  const { name, content, base64, mimeType } = isObject(put) ? put : {}
  const type = optionalText(mimeType, 'mimeType')
  return {
    kind: 'put',
    name: textOf(name, 'name'),
    content: base64 === undefined ? textOf(content, 'content') : Buffer.from(textOf(base64, 'base64'), 'base64'),
    ...(type === undefined ? {} : { mimeType: type }),
  }
}

function textOf(value: Json | undefined, name: string): string {
  if (typeof value === 'string') return value
  throw wrong(name, 'must be a text')
}

function optionalText(value: Json | undefined, name: string): string | undefined {
  return value === undefined || value === null ? undefined : textOf(value, name)
}

function numberOf(value: Json | undefined, name: string): number | undefined {
  if (value === undefined || value === null || typeof value === 'number') return value ?? undefined
  throw wrong(name, 'must be a number')
}

/** JSON.parse reads a number that is too large as Infinity. */
function timeOf(value: Json | undefined): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  throw wrong('ms', 'must be a finite number, 0 or more')
}

function tooMany(most: number): ToolError {
  const message = `has more than ${most} members; send less at once, or put it into a file`
  return new ToolError('INPUT_INVALID', `The program sends arguments that are too large: the call ${message}.`, {
    details: { limit: 'members', issues: [{ path: '/args', message }] },
    effect: 'none',
  })
}

function wrong(name: string, message: string): ToolError {
  return wrongAt(name, { path: `/${name}`, message })
}

function wrongAt(name: string, issue: Issue): ToolError {
  return new ToolError('INPUT_INVALID', `Invalid gateway request: ${name} ${issue.message}.`, {
    details: { issues: [issue] },
    effect: 'none',
  })
}
