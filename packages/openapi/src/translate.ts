import type { Json, JsonObject, JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import {
  type Dialect,
  dialectNamed,
  type KeywordKind,
  keywordKinds,
  modernised,
  raiseExclusive,
  refStandsAlone,
  type Written,
  withNull,
} from './dialects.ts'
import { attempt, clip, lookUp, type Source, textOf, Unusable } from './source.ts'

/** A tool's schema may nest 64 levels of JSON, of which each level of a schema takes up to two. */
const maxLevel = 28
const maxNote = 1_000
const maxExample = 300

/** The context of a translation. */
interface Translation {
  readonly direction: Direction
  readonly hiddenIn: HiddenMembers
  readonly dialect: Dialect
  /** The name in `$defs` of a referenced schema; throws Unusable. */
  readonly refer: (reference: string) => string
  readonly warn: (path: string, message: string) => void
}

/** Translates a schema to 2020-12, with every reference as `#/$defs/name`; throws Unusable. */
export function translateSchema(schema: Json, path: string, translation: Translation): JsonSchema {
  return translate(schema, path, 0, translation, nothing)
}

const nothing: ReadonlySet<string> = new Set()

function translate(
  given: Json,
  path: string,
  level: number,
  translation: Translation,
  inherited: ReadonlySet<string>,
): JsonSchema {
  if (typeof given === 'boolean') return given
  if (!isObject(given)) {
    translation.warn(path, 'is not a schema; anything is allowed here')
    return {}
  }
  if (level > maxLevel) throw new Unusable(`the schema at ${clip(path, 200)} is nested too deeply`)
  const inner = inDialect(given, path, translation)
  const { dialect } = inner
  const reference = typeof given.$ref === 'string' ? { $ref: `#/$defs/${inner.refer(given.$ref)}` } : {}
  if (given.$ref !== undefined && refStandsAlone(dialect)) return reference
  if (given.$dynamicRef !== undefined) throw new Unusable(`the schema at ${clip(path, 200)} uses $dynamicRef`)
  const schema = dialect === 'draft-07' ? modernised(given) : given
  const hidden = schema.allOf === undefined ? inherited : both(inherited, inner.hiddenIn(schema))
  const written: Written = { ...reference }
  for (const keyword of Object.keys(schema)) {
    const kind = keywordKinds.get(keyword)
    const value = schema[keyword]
    if (kind === undefined || value === undefined) continue
    const child = (part: Json, at: string) =>
      translate(part, at, level + 1, inner, keyword === 'allOf' ? hidden : nothing)
    const result = translateKeyword(kind, value, `${path}/${keyword}`, child, inner)
    if (result !== undefined) written[keyword] = result
  }
  hideMembers(written, schema, hidden, inner)
  addNotes(written, schema, inner)
  raiseExclusive(written)
  return dialect === '3.0' && schema.nullable === true ? withNull(written) : written
}

/** The same translation, in the dialect that the schema itself names. */
function inDialect(schema: JsonObject, path: string, translation: Translation): Translation {
  if (schema.$schema === undefined || translation.dialect === '3.0') return translation
  const dialect = dialectNamed(schema.$schema)
  if (dialect === undefined) translation.warn(`${path}/$schema`, 'is an unknown dialect; read as 2020-12')
  return { ...translation, dialect: dialect ?? '2020-12' }
}

type Child = (schema: Json, path: string) => JsonSchema

function translateKeyword(kind: KeywordKind, value: Json, path: string, child: Child, { warn }: Translation): unknown {
  if (kind === 'value') return isExact(value) ? value : withoutLost(value, path, warn)
  if (kind === 'note') return typeof value === 'string' && value !== '' ? clip(value, maxNote) : undefined
  if (kind === 'schema') return child(value, path)
  if (kind === 'list' && Array.isArray(value) && value.length > 0) {
    return value.map((item, index) => child(item, `${path}/${index}`))
  }
  if (kind === 'map' && isObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, child(item, `${path}/${escapeSegment(name)}`)]),
    )
  }
  warn(path, `is not ${kind === 'list' ? 'a list of schemas' : 'an object of schemas'} and was dropped`)
  return undefined
}

/** Drops a limit beyond the safe integers, and such values of an enum. */
function withoutLost(value: Json, path: string, warn: Translation['warn']): Json | undefined {
  if (typeof value === 'number') return undefined
  const left = Array.isArray(value) ? value.filter(isExact) : []
  warn(path, 'contains integers that lose digits, which were dropped')
  return left.length === 0 ? undefined : left
}

/** Removes members that do not exist in this direction, also from `required`. */
function hideMembers(
  written: Written,
  schema: JsonObject,
  inherited: ReadonlySet<string>,
  translation: Translation,
): void {
  const { properties, required } = written
  const own = schema.allOf === undefined ? translation.hiddenIn(schema) : nothing
  const hidden = both(inherited, own)
  if (hidden.size === 0) return
  if (isObject(properties)) {
    written.properties = Object.fromEntries(Object.entries(properties).filter(([name]) => !hidden.has(name)))
  }
  if (!Array.isArray(required)) return
  const left = required.filter((name) => typeof name !== 'string' || !hidden.has(name))
  if (left.length > 0) written.required = left
  else delete written.required
}

function both(some: ReadonlySet<string>, others: ReadonlySet<string>): ReadonlySet<string> {
  return some.size === 0 ? others : new Set([...some, ...others])
}

/** Annotations: default and examples of arguments, and the discriminator in the description. */
function addNotes(written: Written, schema: JsonObject, { direction }: Translation): void {
  const { discriminator } = schema
  const by = isObject(discriminator) ? textOf(discriminator.propertyName) : undefined
  if (by !== undefined) {
    const before = typeof written.description === 'string' ? `${written.description} ` : ''
    written.description = `${before}The member ${clip(by, 100)} says which one it is.`
  }
  if (direction === 'output') return
  const examples = Array.isArray(schema.examples)
    ? schema.examples
    : schema.example === undefined
      ? []
      : [schema.example]
  const small = (value: Json): boolean => isExact(value) && JSON.stringify(value).length <= maxExample
  const kept = examples.slice(0, 3).filter(small)
  if (kept.length > 0) written.examples = kept
  if (schema.default !== undefined && small(schema.default)) {
    written.default = schema.default
  }
}

/** The marks of members that requests do not send, and of members that responses do not have. */
export type Direction = 'input' | 'output'

const marks = { input: 'readOnly', output: 'writeOnly' } as const
/** The limit of schemas visited for one lookup, against deeply nested `allOf`. */
const mostLooks = 200

/** The members of a schema that do not exist in one direction. */
type HiddenMembers = (schema: Json) => ReadonlySet<string>

/** Visits the schema and its `allOf`; results are cached. */
export function createHidden(source: Source, direction: Direction): HiddenMembers {
  const known = new Map<Json, readonly string[]>()
  const ownOf = (schema: JsonObject): readonly string[] => {
    const members = isObject(schema.properties) ? Object.entries(schema.properties) : []
    const own = known.get(schema) ?? members.filter(([, member]) => isHidden(member, direction, source)).map(first)
    known.set(schema, own)
    return own
  }
  return (schema) => {
    const hidden = new Set<string>()
    const seen = new Set<Json>()
    const queue: Json[] = [schema]
    for (let next = queue.pop(); next !== undefined && seen.size < mostLooks; next = queue.pop()) {
      if (!isObject(next) || seen.has(next)) continue
      seen.add(next)
      for (const name of ownOf(next)) hidden.add(name)
      if (Array.isArray(next.allOf)) queue.push(...next.allOf.slice(0, mostLooks))
      const target = targetOf(next, source)
      if (target !== undefined) queue.push(target)
    }
    return hidden
  }
}

function first<T>([one]: readonly [T, ...unknown[]]): T {
  return one
}

/** Whether a member or its referenced schema has the mark. */
function isHidden(member: Json, direction: Direction, source: Source): boolean {
  let schema: Json | undefined = member
  for (let hop = 0; hop < 8 && isObject(schema); hop++) {
    if (schema[marks[direction]] === true) return true
    schema = targetOf(schema, source)
  }
  return false
}

function targetOf(schema: Json, source: Source): Json | undefined {
  const reference = isObject(schema) ? schema.$ref : undefined
  if (typeof reference !== 'string') return undefined
  const found = attempt(() => lookUp(source, reference))
  return 'value' in found ? found.value.value : undefined
}

/** Whether a value has no integer that lost digits when it was parsed, such as the largest int64 as a limit. */
export function isExact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact)
}
