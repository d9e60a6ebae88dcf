import { type Issue, type JsonSchema, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { checkSchema } from '@gantry/json-schema'
import { unescapeSegment } from '@gantry/json-schema/internal/pointer'
import type { SchemaDraft } from './schema-builder.ts'
import { refused } from './source.ts'

/** All definitions of a document are checked as one, so the limits are those of a document and not of a tool. */
const limits = { nodes: 2_000_000, text: 64_000_000, issues: 10_000 }
/** Each round repairs all that one check reports; a reference that leads in a circle is reported alone. */
const mostRounds = 10

type Warn = (path: string, message: string) => void

/**
 * Checks a draft by itself, whatever its references lead to, and drops each keyword that our compiler refuses, with a
 * warning: a pattern that cannot be bounded costs its tool that pattern and not its life. A draft that cannot be repaired gets a
 * fault.
 */
export function repairAlone(draft: SchemaDraft, warn: Warn): void {
  // No definition has a space in its name.
  repairAll(new Map([['the draft', draft]]), draft.refs, warn)
}

/** The same for all definitions together, where references may also lead in a circle. */
export function repairTogether(definitions: ReadonlyMap<string, SchemaDraft>, warn: Warn): void {
  repairAll(definitions, [], warn)
}

function repairAll(all: ReadonlyMap<string, SchemaDraft>, elsewhere: Iterable<string>, warn: Warn): void {
  for (let round = 0; round < mostRounds; round++) {
    const issues = issuesOf(all, elsewhere)
    if (issues.length === 0) return
    for (const issue of issues) repair(issue, all, warn)
  }
  throw refused('The schemas of the OpenAPI document are wrong in too many places.', '')
}

function issuesOf(all: ReadonlyMap<string, SchemaDraft>, elsewhere: Iterable<string>): readonly Issue[] {
  const $defs: { [name: string]: JsonSchema } = {}
  for (const name of elsewhere) $defs[name] = true
  for (const [name, { schema, fault }] of all) $defs[name] = fault === undefined ? schema : {}
  try {
    checkSchema({ $defs }, { limits })
    return []
  } catch (error) {
    if (!ToolError.is(error)) throw error
    return error.details?.issues ?? [{ path: '', message: error.message }]
  }
}

function repair(issue: Issue, all: ReadonlyMap<string, SchemaDraft>, warn: Warn): void {
  const [, , name = '', ...inner] = issue.path.split('/').map(unescapeSegment)
  const draft = all.get(name)
  if (draft === undefined) throw refused(`The schemas of the OpenAPI document cannot be read: ${issue.message}.`, '')
  const dropped = drop(draft.schema, inner, issue.keyword)
  const path = `${draft.path}${issue.path
    .split('/')
    .slice(3)
    .map((segment) => `/${segment}`)
    .join('')}`
  if (dropped) warn(path, `${issue.message}; ${issue.keyword ?? 'it'} was dropped`)
  else draft.fault ??= `the schema at ${path} ${issue.message}`
}

/** Deletes what a path leads to, or the whole keyword when that is an element of a list. */
function drop(schema: JsonSchema, path: readonly string[], keyword: string | undefined): boolean {
  const at = path.lastIndexOf(keyword ?? '')
  const inList = at >= 0 && Array.isArray(valueAt(schema, path.slice(0, -1)))
  const target = inList ? path.slice(0, at + 1) : path
  const owner = valueAt(schema, target.slice(0, -1))
  const key = target.at(-1)
  if (key === undefined || !isObject(owner)) return false
  return Object.hasOwn(owner, key) && Reflect.deleteProperty(owner, key)
}

function valueAt(schema: JsonSchema, path: readonly string[]): unknown {
  let value: unknown = schema
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = Reflect.get(value, key)
  }
  return value
}
