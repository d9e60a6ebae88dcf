import type { HttpBody, Json, JsonSchema } from '@gantry/contract'
import type { Operation } from './operations.ts'
import { follow, member, type Part, parts, type Source } from './source.ts'

/** A media type in small letters, without parameters. */
function bare(type: string): string {
  return (type.split(';', 1)[0] ?? '').trim().toLowerCase()
}

export function isJsonType(type: string): boolean {
  return /^(?:\*\/\*|[^/]+\/(?:json|[^/]+\+json))$/.test(bare(type))
}

/** The types that a body is written as, most useful first. */
const kinds: readonly (readonly [HttpBody['type'], (type: string) => boolean, usual: string])[] = [
  ['json', isJsonType, 'application/json'],
  ['form', (type) => type === 'application/x-www-form-urlencoded', 'application/x-www-form-urlencoded'],
  ['multipart', (type) => type.startsWith('multipart/'), 'multipart/form-data'],
  ['text', (type) => /^text\/|[/+](?:xml|yaml|x-yaml|graphql|sql|javascript)$/.test(type), 'text/plain'],
  ['binary', () => true, 'application/octet-stream'],
]

/** One way to write a body. */
export interface Media {
  readonly type: HttpBody['type']
  /** To be sent, unless it is the usual one. */
  readonly mediaType?: string
  readonly part: Part
}

const mostTypes = 100

/** The most useful of the first hundred media types that a body may have, `application/json` before its relatives. */
export function bestMedia(types: readonly (Part & { readonly key: string })[]): Media | undefined {
  for (const [type, fits, usual] of kinds) {
    const fitting = types.slice(0, mostTypes).filter(({ key }) => fits(bare(key)))
    const chosen = fitting.find(({ key }) => bare(key) === usual) ?? fitting[0]
    if (chosen === undefined) continue
    const named = bare(chosen.key)
    const same = named === usual || named.includes('*') || !/^[!-~ ]{3,200}$/.test(chosen.key)
    return { type, part: chosen, ...(same ? {} : { mediaType: chosen.key }) }
  }
  return undefined
}

/** What an operation answers when all is well. */
interface ResponseSchema {
  /** Undefined when nothing is said of it, or when it is not JSON. */
  readonly schema: JsonSchema | undefined
  /** The media type to ask for, when it is JSON by another name. */
  readonly accept?: string
}

/**
 * The output from the responses 2xx, or from `default` when none of them is there. Several that differ are alternatives;
 * an answer without content is null.
 */
export function readResponse(
  source: Source,
  operation: Operation,
  translate: (schema: Json, path: string) => JsonSchema,
): ResponseSchema {
  const all = parts(member({ value: operation.value, path: operation.path }, 'responses'))
  const good = all.filter(({ key }) => /^2(?:\d\d|XX)$/i.test(key))
  const chosen = good.length > 0 ? good : all.filter(({ key }) => key === 'default')
  const contents = chosen.map((response) => parts(member(follow(source, response), 'content')))
  const json = contents.flatMap((types) => bestJson(types) ?? [])
  const schemas = json.flatMap((media) => member(media, 'schema') ?? [])
  const nothing = contents.some((types) => types.length === 0)
  const other = contents.some((types) => types.length > 0 && bestJson(types) === undefined)
  if (schemas.length === 0 || schemas.length < json.length || other) return { schema: undefined }
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema.value), schema])).values()]
  const written = distinct.map(({ value, path }) => translate(value, path))
  const options: JsonSchema[] = nothing ? [...written, { type: 'null' }] : written
  const schema = options.length === 1 ? options[0] : { anyOf: options }
  const named = json[0]?.key ?? ''
  const unusual = /^[!-~]{3,100}$/.test(named) && !/^(?:application\/json|[^+]*\*)/i.test(named)
  return { schema, ...(unusual ? { accept: named } : {}) }
}

function bestJson(types: readonly (Part & { key: string })[]): (Part & { key: string }) | undefined {
  const json = types.filter(({ key }) => isJsonType(key))
  return json.find(({ key }) => /^application\/json\b/i.test(key)) ?? json[0]
}
