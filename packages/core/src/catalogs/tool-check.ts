import { type Issue, type Tool, ToolError } from '@gantry/contract'
import { checkSchema } from '@gantry/json-schema'
import { quote } from '../ids/quote.ts'
import { isTag, normalTag } from '../ids/text-list.ts'
import { namespaceFault, parseToolId, toolNameFault } from '../ids/tool-id.ts'
import { parseVersion, type Version } from '../ids/version.ts'
import { copyJson } from '../json/copy.ts'
import { isObject } from '../json/kinds.ts'
import { JsonError } from '../json/limits.ts'
import { didYouMean } from '../search/index.ts'
import {
  type Field,
  flag,
  Issues as IssueList,
  type Issues,
  integer,
  json,
  jsonObject,
  list,
  oneOf,
  record,
  ruled,
  text,
  texts,
} from './tool-fields.ts'

const maxDescription = 10_000
const maxDocs = 100_000
const words = list(text(256), 100)
const tagList = list(text(64), 20)

/** How each field of a Tool is checked and copied; the type makes a new field of the contract appear here. */
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

/** A definition that holds, with its version read. */
export interface CheckedTool {
  readonly tool: Tool
  readonly version: Version
}

/**
 * Checks a definition and gives the frozen copy that a catalog keeps, so that the caller's later changes change nothing.
 * Throws TOOL_INVALID with every failing path, or SCHEMA_INVALID when only a schema is wrong.
 * A function beside the data, as `defineTool` keeps it, is left out.
 */
export function checkTool(tool: Tool): CheckedTool {
  if (!isObject(tool)) throw new ToolError('TOOL_INVALID', 'A tool definition must be an object.')
  const issues = new IssueList()
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

/** The members with text for a key, each read once, in an object of the same shape, which is the fastest to make. */
function ownMembers(value: object): Record<string, unknown> {
  const copy: Record<string | symbol, unknown> = { ...value }
  for (const symbol of Object.getOwnPropertySymbols(copy)) delete copy[symbol]
  return copy
}

/** The error for a definition that is wrong at the given paths. */
export function invalid(tool: Tool, issues: readonly Issue[]): ToolError {
  const code = issues.every((issue) => issue.schemaPath !== undefined) ? 'SCHEMA_INVALID' : 'TOOL_INVALID'
  const first = issues[0]
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const id = quote(`${String(tool.namespace)}:${String(tool.name)}`)
  const reason = first === undefined ? 'it is invalid' : `${first.path} ${first.message}`
  return new ToolError(code, `The tool ${id} is wrong: ${reason}${more}.`, { details: { issues } })
}

function inputSchema(value: unknown, path: string, issues: Issues): unknown {
  if (!isObject(value) || value.type !== 'object') {
    return issues.add(path, 'must be a schema with `"type": "object"`, because arguments are an object')
  }
  return schema(value, path, issues)
}

/** Copies a schema, then checks the copy, so that what was checked is what is kept. */
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

/** Tags are compared as text, so they are brought to one spelling and named once. */
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

/** A binding's options are the host's own: plain data is copied, a function or a client object stays what it is. */
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
