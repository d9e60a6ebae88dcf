import type { HttpBody } from '@gantry/contract'
import type { Part } from './source.ts'

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
