import type { HttpAuth, HttpBinding, HttpParameter, JsonSchema } from '@gantry/contract'
import { type Argument, nameArguments } from './arguments.ts'
import { readBody } from './body.ts'
import type { Example } from './examples.ts'
import type { Operation } from './operations.ts'
import { readParameters } from './parameters.ts'
import type { Report } from './report.ts'
import { readAnswer } from './responses.ts'
import type { Room } from './room.ts'
import type { Security } from './security.ts'
import type { Servers } from './servers.ts'
import type { Source } from './source.ts'
import { attempt, Unusable } from './unusable.ts'
import type { Work, Workshop } from './workshop.ts'

const maxPath = 2_000

/** All that the import of one document shares. */
export interface Import {
  readonly source: Source
  readonly name: string
  readonly report: Report
  readonly servers: Servers
  readonly security: Security
  readonly inputs: Workshop
  readonly outputs: Workshop
  readonly room: Room
  /** For schemas that are compiled to check examples. */
  readonly checks: Room
}

/** An operation as a tool, before its schemas are checked and complete. */
export interface Draft {
  readonly operation: Operation
  readonly name: string
  readonly binding: HttpBinding
  readonly named: ReadonlyMap<string, Argument>
  readonly examples: readonly Example[]
  readonly input: Work
  readonly output: Work | undefined
}

/** Reads one operation; throws Unusable with the reason why it cannot be a tool. */
export function draftTool(operation: Operation, name: string, shared: Import): Draft {
  const { source, report, inputs, security, servers, room } = shared
  room.take(0)
  if (operation.method === 'TRACE') throw new Unusable('TRACE is never sent')
  const { path, query, baseUrl } = pathOf(operation, servers)
  const auth = security.of(operation)
  const input = inputs.begin()
  const translate = (schema: Parameters<Workshop['translate']>[1], at: string) => inputs.translate(input, schema, at)
  const reading = { source, operation, report, translate, auth: auth ?? security.usual }
  const parameters = readParameters(reading)
  const body = readBody(reading)
  const named = nameArguments(body?.arguments ?? [], parameters)
  inputs.end(input, inputSchema(named))
  const { output, accept } = answerOf(operation, shared)
  const binding: HttpBinding = {
    kind: 'http',
    name: shared.name,
    method: operation.method,
    path,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(query === undefined ? {} : { query }),
    ...paramsOf(named),
    ...(body === undefined ? {} : { body: body.binding }),
    ...(accept === undefined ? {} : { headers: { Accept: accept } }),
    ...(auth === undefined ? {} : { auth: oneOrList(auth) }),
  }
  return { operation, name, binding, named, examples: body?.examples ?? [], input, output }
}

/** One way to prove who calls stands alone; none, or several, are a list. */
export function oneOrList(auth: readonly HttpAuth[]): HttpAuth | readonly HttpAuth[] {
  const [first, second] = auth
  return first !== undefined && second === undefined ? first : auth
}

/** The path below the base URL, and the query that some documents write behind it. */
function pathOf(
  operation: Operation,
  servers: Servers,
): { path: string; query?: { [name: string]: string }; baseUrl?: string } {
  if (operation.template.length > maxPath) throw new Unusable(`its path is longer than ${maxPath} characters`)
  const [template = '', ...constants] = operation.template.split('?')
  const { prefix, ...elsewhere } = servers.placeOf(operation)
  const path = `${prefix}${template}`
  const literal = path.replaceAll(/\{[^{}]+\}/g, 'x')
  if (/[{}]/.test(literal)) throw new Unusable('its path has a brace without its partner')
  if (literal.includes('#')) throw new Unusable('its path holds #, behind which nothing is sent to a server')
  if (/[\\\s\p{C}]/u.test(literal)) throw new Unusable('its path holds a character that no path has')
  if (literal.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment))) throw new Unusable('its path climbs')
  if (constants.length === 0) return { path, ...elsewhere }
  if (/[{}#]/.test(constants.join(''))) throw new Unusable('its path has parameters in a query')
  return { path, query: Object.fromEntries(new URLSearchParams(constants.join('?'))), ...elsewhere }
}

/** Closed, because an argument that nothing places would end up in the query or the body. */
function inputSchema(named: ReadonlyMap<string, Argument>): JsonSchema {
  const required = [...named].filter(([, argument]) => argument.required).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries([...named].map(([name, { schema }]) => [name, schema])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  }
}

function paramsOf(named: ReadonlyMap<string, Argument>): { params?: { [argument: string]: HttpParameter } } {
  const placed = [...named].flatMap(([name, { place }]) => (place === undefined ? [] : [[name, place] as const]))
  return placed.length === 0 ? {} : { params: Object.fromEntries(placed) }
}

/** An output that cannot be described leaves a tool that works, and a warning. */
function answerOf(
  operation: Operation,
  { source, outputs, report }: Import,
): { output: Work | undefined; accept?: string } {
  const output = outputs.begin()
  const read = attempt(() => readAnswer(source, operation, (schema, path) => outputs.translate(output, schema, path)))
  if ('reason' in read) {
    report.warn(operation.path, `the output is not described: ${read.reason}`, operation.label)
    return { output: undefined }
  }
  const { schema, accept } = read.value
  if (schema === undefined) return { output: undefined }
  outputs.end(output, schema)
  return accept === undefined ? { output } : { output, accept }
}
