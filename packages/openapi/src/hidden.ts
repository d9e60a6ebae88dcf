import type { Json, JsonObject } from '@gantry/contract'
import { isRecord, lookUp, type Source } from './source.ts'
import { attempt } from './unusable.ts'

/** Members a request does not send, and members an answer does not have. */
export type Direction = 'input' | 'output'

const marks = { input: 'readOnly', output: 'writeOnly' } as const
/** Schemas that are looked at for one answer, so that `allOf` within `allOf` costs no more than it is worth. */
const mostLooks = 200

/** The members of a schema that do not exist in one direction. */
export type HiddenMembers = (schema: Json) => ReadonlySet<string>

/** Looks at the schema itself and everything it takes in with `allOf`; what was found of one is kept for the next. */
export function createHidden(source: Source, direction: Direction): HiddenMembers {
  const known = new Map<Json, readonly string[]>()
  const ownOf = (schema: JsonObject): readonly string[] => {
    const members = isRecord(schema.properties) ? Object.entries(schema.properties) : []
    const own = known.get(schema) ?? members.filter(([, member]) => isHidden(member, direction, source)).map(first)
    known.set(schema, own)
    return own
  }
  return (schema) => {
    const hidden = new Set<string>()
    const seen = new Set<Json>()
    const queue: Json[] = [schema]
    for (let next = queue.pop(); next !== undefined && seen.size < mostLooks; next = queue.pop()) {
      if (!isRecord(next) || seen.has(next)) continue
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

/** Whether a member is marked, itself or where its reference leads. */
function isHidden(member: Json, direction: Direction, source: Source): boolean {
  let schema: Json | undefined = member
  for (let hop = 0; hop < 8 && isRecord(schema); hop++) {
    if (schema[marks[direction]] === true) return true
    schema = targetOf(schema, source)
  }
  return false
}

function targetOf(schema: Json, source: Source): Json | undefined {
  const reference = isRecord(schema) ? schema.$ref : undefined
  if (typeof reference !== 'string') return undefined
  const found = attempt(() => lookUp(source, reference))
  return 'value' in found ? found.value.value : undefined
}
