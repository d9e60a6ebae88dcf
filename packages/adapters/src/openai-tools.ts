import type { JsonObject, JsonSchema } from '@gantry/contract'
import type { Tell } from './clean.ts'
import type { Names } from './names.ts'
import { type AdapterOptions, checkAdapterOptions, flag } from './options.ts'
import { type Node, plainTop } from './reduce.ts'
import { strictSchema, withoutNulls } from './strict.ts'

/** What OpenAI's two APIs can be told. */
export interface OpenAiOptions extends AdapterOptions {
  /**
   * Has the model held to the schema. Every member is then required and one that may be absent may be null; such nulls
   * are taken out of the calls again. A tool whose schema strict mode cannot say is sent without it, with a warning.
   */
  readonly strict?: boolean
}

export function checkOpenAi(name: string, options: OpenAiOptions): void {
  checkAdapterOptions(name, options, { strict: flag })
}

export interface OpenAiParameters {
  readonly parameters: Node
  readonly strict: boolean
}

/** The parameters of a function, strict when that was asked for and is possible. */
export function openAiParameters(schema: JsonSchema, strict: boolean, tell: Tell): OpenAiParameters {
  const path = '/inputSchema'
  if (strict) {
    const written = strictSchema(schema, path)
    if (written.ok) {
      for (const loss of written.losses) tell(loss)
      return { parameters: written.schema, strict: true }
    }
    const message = `OpenAI strict mode cannot say this schema (${written.path} ${written.reason}); it was sent without.`
    tell({ path: written.path, keyword: 'strict', done: 'dropped', message })
  }
  return { parameters: plainTop(schema, path, 'OpenAI', tell), strict: false }
}

/** Undoes in a call's arguments what strict mode did to the schema. */
export function undoStrict(names: Names, strict: boolean): (args: JsonObject, name: string) => JsonObject {
  return (args, name) => {
    const entry = strict ? names.find(name) : undefined
    return entry === undefined ? args : withoutNulls(args, entry.tool.inputSchema)
  }
}
