import type { Json, JsonObject, ToolExample } from '@gantry/contract'
import { compileSchema } from '../schema/index.ts'
import type { Argument } from './arguments.ts'
import { isExact } from './exact.ts'
import { clip, follow, isRecord, member, type Part, parts, type Source, textOf } from './source.ts'
import { attempt } from './unusable.ts'

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

/** Worked uses of a tool: the examples of its parameters with each of its body; only those that fit the input schema. */
export function toolExamples(
  named: ReadonlyMap<string, Argument>,
  bodies: readonly Example[],
  inputSchema: JsonObject,
  title: string,
): readonly ToolExample[] {
  const given: JsonObject = {}
  for (const [name, { example }] of named) if (example !== undefined && isExact(example)) given[name] = example
  const candidates = bodies.length === 0 ? [{ value: {} }] : bodies
  const found = candidates.flatMap((body): ToolExample[] => {
    if (!isRecord(body.value) || !isExact(body.value)) return []
    const args = { ...given, ...body.value }
    const complete = [...named].every(([name, { required }]) => !required || Object.hasOwn(args, name))
    if (!complete || Object.keys(args).length === 0 || JSON.stringify(args).length > maxExample) return []
    return [{ title: clip('title' in body && body.title !== undefined ? body.title : title, 200), args }]
  })
  if (found.length === 0) return []
  const { check } = compileSchema(inputSchema)
  return found.filter(({ args }) => check(args))
}
