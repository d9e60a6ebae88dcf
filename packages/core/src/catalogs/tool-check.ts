import { type Issue, type Json, type Tool, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { checkSchema } from '@gantry/json-schema'
import { quote } from '../ids/quote.ts'
import { isTag, normalTag } from '../ids/text-list.ts'
import { namespaceFault, parseToolId, toolNameFault } from '../ids/tool-id.ts'
import { parseVersion, type Version } from '../ids/version.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import { didYouMean } from '../search/index.ts'

const maxDescription = 10_000
const maxDocs = 100_000
const words = list(text(256), 100)
const tagList = list(text(64), 20)

/** The check of each field of a Tool; the type makes a new field of the contract a compile error until it is added here. */
const fields: { readonly [Key in keyof Required<Tool>]: Field } = {
  namespace: ruled(namespaceFault),
  name: ruled(toolNameFault),
  version: (value) => value,
  title: text(200),
  description: text(maxDescription),
  inputSchema,
  outputSchema: schema,
  annotations: record({
    title: text(200),
    readOnlyHint: flag,
    destructiveHint: flag,
    idempotentHint: flag,
    openWorldHint: flag,
  }),
  icons: list(record({ src: text(100_000), mimeType: text(100), sizes: list(text(20), 20) }, ['src']), 10),
  tags,
  docs: text(maxDocs),
  examples: list(
    record({ title: text(200), description: text(maxDescription), args: jsonObject, output: json }, ['title', 'args']),
    50,
  ),
  deprecated: record({ message: text(1_000), replacement: ruled(idFault) }, ['message']),
  aliases: list(ruled(aliasFault), 20),
  backends: list(binding, 20, 1),
  effect: oneOf('read', 'keyed', 'reconcilable', 'once', 'repeatable'),
  output: oneOf('warn', 'strict'),
  timeoutMs: integer(1, 2 ** 31 - 1),
  limits: record({ argsBytes: integer(1), argsDepth: integer(1), resultBytes: integer(1), resultDepth: integer(1) }),
  permissions: words,
  secrets: words,
  egress: words,
  profile: text(64),
  runtime: text(64),
  concurrencyKey: text(256),
  concurrency: integer(1),
  retry: record({ attempts: integer(1, 100), delayMs: integer(0), maxDelayMs: integer(0) }, ['attempts']),
  breaker: flag,
  onCircuitOpen: oneOf('fail', 'wait'),
  approval: oneOf('never', 'always'),
  placement: texts,
  background: flag,
  cost: integer(0, 1_000_000_000),
  cache: record({ ttlMs: integer(1, 86_400_000), scope: oneOf('principal', 'tenant') }, ['ttlMs']),
}

const required = ['namespace', 'name', 'description', 'inputSchema', 'backends', 'effect']
const known: ReadonlyMap<string, Field> = new Map(Object.entries(fields))

/** A valid definition with its parsed version. */
interface CheckedTool {
  readonly tool: Tool
  readonly version: Version
}

/**
 * Checks a definition and returns the frozen copy that a catalog keeps, so that later changes by the caller have no
 * effect. Throws TOOL_INVALID with every failing path, or SCHEMA_INVALID when only a schema is invalid.
 * A function in the definition, as `defineTool` adds it, is dropped.
 */
export function checkTool(tool: Tool): CheckedTool {
  if (!isObject(tool)) throw new ToolError('TOOL_INVALID', 'A tool definition must be an object.')
  const issues = new Issues()
  const copy = ownMembers(tool)
  for (const name of Object.keys(copy)) {
    const value = copy[name]
    const field = known.get(name)
    if (value !== undefined && field !== undefined) copy[name] = field(value, `/${name}`, issues)
    else {
      delete copy[name]
      if (value === undefined || typeof value === 'function') continue
      issues.add(`/${name.slice(0, 64)}`, `is not a known property of a tool${didYouMean(name, known.keys())}`)
    }
  }
  for (const name of required) if (!(name in copy)) issues.add(`/${name}`, 'is required')
  if (copy.cache !== undefined && copy.effect !== 'read')
    issues.add('/cache', 'is for tools with the effect `read` only')
  const version = typeof copy.version === 'string' ? parseVersion(copy.version) : undefined
  if (version === undefined) issues.add('/version', 'must be a semantic version such as `1.0.0`')
  if (issues.list.length > 0 || version === undefined) throw invalid(tool, issues.list)
  return { tool: Object.freeze(copy) as unknown as Tool, version }
}

/** The members with string keys, each read once, in an object of the same shape, which is fastest to create. */
function ownMembers(value: object): Record<string, unknown> {
  const copy: Record<string | symbol, unknown> = { ...value }
  for (const symbol of Object.getOwnPropertySymbols(copy)) delete copy[symbol]
  return copy
}

/** The error for a definition that fails at the given paths. */
export function invalid(tool: Tool, issues: readonly Issue[]): ToolError {
  const code = issues.every((issue) => issue.schemaPath !== undefined) ? 'SCHEMA_INVALID' : 'TOOL_INVALID'
  const first = issues[0]
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const id = quote(`${String(tool.namespace)}:${String(tool.name)}`)
  const reason = first === undefined ? 'it is invalid' : `${first.path} ${first.message}`
  return new ToolError(code, `Invalid definition of the tool ${id}: ${reason}${more}.`, { details: { issues } })
}

function inputSchema(value: unknown, path: string, issues: Issues): unknown {
  if (!isObject(value) || value.type !== 'object') {
    return issues.add(path, 'must be a schema with `"type": "object"`, because arguments are an object')
  }
  return schema(value, path, issues)
}

/** Copies a schema, then checks the copy, so that the catalog keeps exactly what was checked. */
function schema(value: unknown, path: string, issues: Issues): unknown {
  if (typeof value !== 'boolean' && !isObject(value)) return issues.add(path, 'must be a JSON Schema')
  const copy = json(value, path, issues)
  if (copy === undefined) return undefined
  try {
    checkSchema(copy as Tool['inputSchema'])
  } catch (error) {
    if (!ToolError.is(error)) throw error
    const found = error.details?.issues ?? [{ path: '', message: error.message }]
    for (const issue of found) {
      issues.list.push({ ...issue, path: `${path}${issue.path}`, schemaPath: issue.schemaPath ?? issue.path })
    }
  }
  return copy
}

/** Tags are compared as text, so they are normalized and deduplicated. */
function tags(value: unknown, path: string, issues: Issues): unknown {
  const given = tagList(value, path, issues)
  if (!Array.isArray(given)) return undefined
  if (given.every(isNormalAndNew)) return given
  const clean = new Set<string>()
  given.forEach((tag: string | undefined, index) => {
    if (tag === undefined) return
    const normal = normalTag(tag)
    if (isTag(normal)) clean.add(normal)
    else issues.add(`${path}/${index}`, 'may hold only letters, digits, `-`, `_` and `.`')
  })
  return Object.freeze([...clean])
}

function isNormalAndNew(tag: unknown, index: number, all: readonly unknown[]): boolean {
  return typeof tag === 'string' && isTag(tag) && all.indexOf(tag) === index
}

function idFault(id: string): string | undefined {
  try {
    parseToolId(id)
    return undefined
  } catch (error) {
    if (!ToolError.is(error)) throw error
    return 'must be a tool id such as `namespace:name`'
  }
}

function aliasFault(id: string): string | undefined {
  const fault = idFault(id)
  if (fault !== undefined) return fault
  return parseToolId(id).version === undefined ? undefined : 'must not name a version'
}

const bindingKind = text(64)
const bindingName = text(128)

/** The options of a binding belong to the host: plain data is copied, functions and client objects are kept by reference. */
function binding(value: unknown, path: string, issues: Issues): unknown {
  if (!isObject(value)) return issues.add(path, 'must be an object')
  bindingKind(value.kind, `${path}/kind`, issues)
  if (value.name !== undefined) bindingName(value.name, `${path}/name`, issues)
  const copy: Record<string, unknown> = {}
  for (const [key, option] of Object.entries(value)) {
    if (key === '__proto__') issues.add(`${path}/__proto__`, 'is a key that is not allowed')
    else if (option !== undefined) copy[key] = ownOption(option)
  }
  return Object.freeze(copy)
}

function ownOption(option: unknown): unknown {
  if (typeof option !== 'object' || option === null) return option
  try {
    return copyJson(option, { freeze: true })
  } catch (error) {
    if (error instanceof JsonError) return option
    throw error
  }
}

/** Collects the issues of one definition, up to a limit. */
class Issues {
  readonly list: Issue[] = []

  add(path: string, message: string): undefined {
    if (this.list.length < 100) this.list.push({ path, message })
    return undefined
  }
}

/** Checks one field and returns the frozen value to keep; adds an issue and returns undefined when it is invalid. */
type Field = (value: unknown, path: string, issues: Issues) => unknown

/** A string of bounded length that is not blank. */
export function text(limit: number): Field {
  return (value, path, issues) => {
    if (typeof value !== 'string') return issues.add(path, 'must be a string')
    if (value.length > limit) return issues.add(path, `must not be longer than ${limit} characters`)
    return value.trim() === '' ? issues.add(path, 'must not be empty') : value
  }
}

/** A string with a custom rule, which returns what is wrong with it. */
function ruled(fault: (value: string) => string | undefined): Field {
  return (value, path, issues) => {
    if (typeof value !== 'string') return issues.add(path, 'must be a string')
    const wrong = fault(value)
    return wrong === undefined ? value : issues.add(path, wrong)
  }
}

/** One of a few words. */
function oneOf(...words: readonly string[]): Field {
  return (value, path, issues) =>
    words.some((word) => word === value) ? value : issues.add(path, `must be one of ${words.join(', ')}`)
}

/** A whole number within bounds. */
function integer(least: number, most = Number.MAX_SAFE_INTEGER): Field {
  return (value, path, issues) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
      ? value
      : issues.add(
          path,
          `must be a whole number of at least ${least}${most < 2 ** 53 - 1 ? ` and at most ${most}` : ''}`,
        )
}

function flag(value: unknown, path: string, issues: Issues): unknown {
  return typeof value === 'boolean' ? value : issues.add(path, 'must be true or false')
}

/** A list of bounded length whose elements all fit one field. */
export function list(field: Field, limit: number, least = 0): Field {
  return (value, path, issues) => {
    if (!Array.isArray(value)) return issues.add(path, 'must be a list')
    if (value.length < least) return issues.add(path, `must have at least ${least} element`)
    if (value.length > limit) return issues.add(path, `must not have more than ${limit} elements`)
    return Object.freeze(value.map((item, index) => field(item, `${path}/${index}`, issues)))
  }
}

/** An object with known members only; members in `required` must be present. */
function record(members: { readonly [key: string]: Field }, required: readonly string[] = []): Field {
  const known = new Map(Object.entries(members))
  return (value, path, issues) => {
    if (!isObject(value)) return issues.add(path, 'must be an object')
    const copy: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const member = value[key]
      const field = known.get(key)
      if (member === undefined) continue
      if (field !== undefined) copy[key] = field(member, `${path}/${key}`, issues)
      else issues.add(`${path}/${key.slice(0, 64)}`, `is not a known property${didYouMean(key, known.keys())}`)
    }
    for (const key of required) if (value[key] === undefined) issues.add(`${path}/${key}`, 'is required')
    return Object.freeze(copy)
  }
}

const frozen = { freeze: true }

/** Any JSON value, as a copy without references to objects of the caller. */
export function json(value: unknown, path: string, issues: Issues): Json | undefined {
  try {
    return copyJson(value, frozen)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    return issues.add(`${path}${error.path}`, error.message)
  }
}

/** An object of strings with arbitrary keys, as a plain copy. */
export function texts(value: unknown, path: string, issues: Issues): unknown {
  if (!isObject(value)) return issues.add(path, 'must be an object')
  const wrong = Object.keys(value).find((name) => typeof value[name] !== 'string')
  if (wrong !== undefined) return issues.add(`${path}/${wrong.slice(0, 64)}`, 'must be a string')
  return json(value, path, issues)
}

function jsonObject(value: unknown, path: string, issues: Issues): Json | undefined {
  return isObject(value) ? json(value, path, issues) : issues.add(path, 'must be an object')
}

/** Bounds the error for a toolset with thousands of invalid patterns. */
const maxIssues = 100

/** INPUT_INVALID for a query or filter that fails at the given paths. */
export function inputFault(question: string, issues: readonly Issue[]): ToolError {
  const [first] = issues
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const reason = first === undefined ? 'it is invalid' : `${first.path} ${first.message}`
  const details = { issues: issues.slice(0, maxIssues) }
  return new ToolError('INPUT_INVALID', `Invalid ${question}: ${reason}${more}.`, { details })
}
