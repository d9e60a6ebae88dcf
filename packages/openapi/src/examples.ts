import type { Json, JsonObject, JsonSchema, ToolExample } from '@gantry/contract'
import type { Validator } from '@gantry/json-schema'
import type { Argument } from './parameters.ts'
import { attempt, clip, follow, isRecord, member, type Part, parts, type Source, textOf } from './source.ts'
import { isExact } from './translate.ts'

const mostExamples = 3
const maxExample = 10_000

/** An example of the document, with the name it has there. */
export interface Example {
  readonly title?: string
  readonly value: Json
}

/** The examples of a parameter or a media type: its own, or those of its schema. */
export function examplesOf(source: Source, owner: Part): readonly Example[] {
  const named = parts(member(owner, 'examples')).flatMap(({ key, value, path }) => {
    const read = attempt(() => follow(source, { value, path }).value)
    if (!('value' in read) || read.value.value === undefined) return []
    return [{ title: textOf(read.value.summary) ?? key, value: read.value.value }]
  })
  const single = member(owner, 'example') ?? schemaExample(source, owner)
  return [...named, ...(single === undefined ? [] : [{ value: single.value }])].slice(0, mostExamples)
}

export function firstExample(source: Source, owner: Part): Example | undefined {
  return examplesOf(source, owner)[0]
}

function schemaExample(source: Source, owner: Part): Part | undefined {
  const schema = member(owner, 'schema')
  const read = schema && attempt(() => follow(source, schema))
  if (read === undefined || !('value' in read)) return undefined
  const list = member(read.value, 'examples')
  return member(read.value, 'example') ?? (Array.isArray(list?.value) ? parts(list)[0] : undefined)
}

/** Worked uses of a tool, and why some examples of the document are not among them. */
export interface ToolExamples {
  readonly kept: readonly ToolExample[]
  readonly lost: readonly string[]
}

/**
 * The examples of a tool's parameters with each of its body; only those that fit the input schema. What is required and
 * has no example is taken from its schema, where that names a value.
 */
export function toolExamples(
  named: ReadonlyMap<string, Argument>,
  bodies: readonly Example[],
  compile: () => Validator,
  title: string,
): ToolExamples {
  const given: JsonObject = {}
  for (const [name, { example }] of named) if (example !== undefined && isExact(example)) given[name] = example
  if (Object.keys(given).length === 0 && bodies.length === 0) return { kept: [], lost: [] }
  let compiled: Validator | undefined
  const check = (args: Json): boolean => {
    compiled ??= compile()
    return compiled.check(args)
  }
  const kept: ToolExample[] = []
  const lost = new Set<string>()
  const candidates: readonly Example[] = bodies.length === 0 ? [{ value: {} }] : bodies
  for (const body of candidates) {
    const args = { ...given, ...(isRecord(body.value) ? body.value : {}) }
    const fault = complete(args, named) ?? (isRecord(body.value) ? argsFault(args, check) : 'is no object')
    if (Object.keys(args).length === 0) continue
    if (fault === undefined) kept.push({ title: clip(body.title ?? title, 200), args })
    else lost.add(fault)
  }
  return { kept, lost: [...lost] }
}

/** Puts in what the schema of a required argument names; says what is still missing then. */
function complete(args: JsonObject, named: ReadonlyMap<string, Argument>): string | undefined {
  for (const [name, { required, schema }] of named) {
    if (!required || Object.hasOwn(args, name)) continue
    const value = namedValue(schema)
    if (value === undefined) return `has nothing for the required ${clip(name, 60)}`
    args[name] = value
  }
  return undefined
}

function namedValue(schema: JsonSchema): Json | undefined {
  if (typeof schema === 'boolean') return undefined
  const { const: only, default: usual, enum: list } = schema as { const?: Json; default?: Json; enum?: Json }
  return [usual, only, Array.isArray(list) ? list[0] : undefined].find((value) => value !== undefined && isExact(value))
}

function argsFault(args: JsonObject, check: (args: Json) => boolean): string | undefined {
  if (!isExact(args)) return 'holds a number that loses digits'
  if (JSON.stringify(args).length > maxExample) return `is longer than ${maxExample} characters`
  return check(args) ? undefined : 'does not fit the schema'
}
