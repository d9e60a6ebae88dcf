import { ToolError } from '@gantry/contract'
import { codePoint, quote } from './quote.ts'
import { parseRange } from './version.ts'

/** A parsed tool id: `namespace:name`, optionally with a version or a version range. */
export interface ToolId {
  readonly namespace: string
  readonly name: string
  readonly version?: string
}

const maxNamespace = 64
const maxName = 128
const maxId = 400
const namePattern = /^[A-Za-z0-9_](?:\.?[A-Za-z0-9_-])*\.?$/
const foreign = /[^A-Za-z0-9_.-]/u

/** Parses a tool id; throws TOOL_ID_INVALID with the failing part and the reason. */
export function parseToolId(id: string): ToolId {
  const wrong = typeof id === 'string' ? undefined : 'it is not a string'
  if (wrong !== undefined) throw invalid(String(typeof id), wrong)
  if (id.length > maxId) throw invalid(id, `it is longer than ${maxId} characters`)
  const first = id.indexOf(':')
  if (first < 0) throw invalid(id, 'it has no `:` between namespace and name')
  const second = id.indexOf(':', first + 1)
  const namespace = id.slice(0, first)
  const name = second < 0 ? id.slice(first + 1) : id.slice(first + 1, second)
  if (second < 0) return checked(id, { namespace, name })
  return checked(id, { namespace, name, version: id.slice(second + 1) })
}

/** Formats a tool id; refuses parts that would not parse back unchanged. */
export function formatToolId(id: ToolId): string {
  const text = id.version === undefined ? `${id.namespace}:${id.name}` : `${id.namespace}:${id.name}:${id.version}`
  checked(text, id)
  return text
}

/** Why a namespace is invalid; undefined when it is valid. */
export function namespaceFault(namespace: string): string | undefined {
  return nameFault(namespace, maxNamespace)
}

/** Why a tool name is invalid; undefined when it is valid. */
export function toolNameFault(name: string): string | undefined {
  return nameFault(name, maxName)
}

function checked(text: string, id: ToolId): ToolId {
  const inNamespace = namespaceFault(id.namespace)
  if (inNamespace !== undefined) throw invalid(text, `the namespace ${inNamespace}`)
  const inName = toolNameFault(id.name)
  if (inName !== undefined) throw invalid(text, `the name ${inName}`)
  if (id.version !== undefined && parseRange(id.version) === undefined) {
    throw invalid(text, 'the part after the second `:` is neither a version nor a range such as `^1`')
  }
  return id
}

/** The pattern accepts a valid name in one pass; the rest explains what is invalid. */
function nameFault(name: string, limit: number): string | undefined {
  if (name.length === 0) return 'is empty'
  if (name.length > limit) return `is longer than ${limit} characters`
  if (namePattern.test(name)) return undefined
  const character = foreign.exec(name)?.[0]
  if (character !== undefined) {
    return `holds ${codePoint(character)}; only ASCII letters, digits, \`_\`, \`.\` and \`-\` are allowed`
  }
  if (name.includes('..')) return 'holds `..`'
  return 'does not start with a letter, a digit or `_`'
}

function invalid(id: string, reason: string): ToolError {
  return new ToolError('TOOL_ID_INVALID', `Invalid tool id ${quote(id)}: ${reason}.`)
}
