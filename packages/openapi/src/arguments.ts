import type { HttpParameter, Json, JsonSchema } from '@gantry/contract'
import { argumentName, createNamer } from './names.ts'

/** One argument of a tool, and the parameter it becomes; a part of the body has no place of its own. */
export interface Argument {
  /** Its name on the wire, which for a part of the body is also its name as an argument. */
  readonly wire: string
  readonly schema: JsonSchema
  readonly required: boolean
  readonly place?: HttpParameter
  readonly example?: Json
}

/**
 * Names for arguments. Parts of the body keep theirs; a parameter keeps its own in letters that every model takes, and is
 * prefixed with its place (`query_id`) where that name stands in the body or in another place too.
 */
export function nameArguments(
  body: readonly Argument[],
  parameters: readonly Argument[],
): ReadonlyMap<string, Argument> {
  const named = new Map(body.map((argument) => [argument.wire, argument]))
  const counts = new Map<string, number>()
  const free = createNamer(named)
  const nameOf = ({ wire }: Argument): string => argumentName(wire)
  for (const name of [...named.keys(), ...parameters.map(nameOf)]) counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const parameter of parameters) {
    const name = nameOf(parameter)
    const wanted = counts.get(name) === 1 ? name : `${parameter.place?.in}_${name}`
    named.set(free(wanted), parameter)
  }
  return named
}
