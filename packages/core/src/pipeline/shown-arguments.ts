import type { Json, JsonObject, Tool } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { isObject } from '../json/kinds.ts'
import { createRedactor, define, isSecretKey, type RedactionMark, type Redactor } from '../json/redact.ts'

/** Arguments as an approver may see them, with the places where something is hidden. */
export interface ShownArguments {
  readonly args: JsonObject
  /** JSON Pointers; the text at each of them says how long it is and has a digest. */
  readonly hidden: readonly string[]
}

/**
 * Shows arguments exactly, but for the values of known secrets and for members that the tool itself declares under a
 * name that says that they are secret. The name of a member that the schema does not declare, as in a map of files, and
 * the shape of a text are the caller's choice, and would let it hide what it has approved.
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
    ...{ root: inputSchema, mark, hidden: [] },
    redactor: values.length === 0 ? undefined : createRedactor({ values, mark, keys: false }),
  }
  const shown = shownValue(walk, args, declares ? [inputSchema] : [], '') as JsonObject
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
  const about = [...applicable(schemas, walk.root)]
  if (Array.isArray(value)) {
    return value.map((item, index) => shownValue(walk, item, itemSchemas(about, index), `${path}/${index}`))
  }
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

/** The schemas and all that apply to the same value with them; each once, so that references may go in circles. */
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

/** A schema within the same document; what else a reference means declares nothing here. */
function referred(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return null
  let found: unknown = root
  for (const segment of reference.slice(1).split('/').slice(1)) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return null
    found = (found as Schema)[key]
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

/** Whether anything in a schema is a declaration that could hide a member; most schemas have none. */
function namesSecret(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  if (Array.isArray(schema)) return schema.some(namesSecret)
  return Object.entries(schema).some(
    ([key, member]) =>
      (key === 'properties' && isObject(member) && Object.keys(member).some(isSecretKey)) || namesSecret(member),
  )
}
