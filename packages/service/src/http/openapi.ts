import { type CodeInfo, codes, contractVersion, type ErrorCode, type JsonSchema } from '@gantry/contract'
import { schemas } from '@gantry/contract/schemas'
import type { AnswerDoc, Route } from './route.ts'
import { idParameter, ref, viewSchemas } from './schemas.ts'

/** The errors of every route; routes with a key can also refuse the caller, and those with a body its size. */
const common: readonly ErrorCode[] = [
  ...(['PAYLOAD_INVALID', 'DENIED', 'INTERNAL', 'SERVICE_UNAVAILABLE', 'STORE_UNAVAILABLE'] as const),
]

/** The OpenAPI 3.1 document of these routes. */
export function openApiDocument(routes: readonly Route[]): { readonly [key: string]: unknown } {
  const paths: { [path: string]: { [method: string]: unknown } } = {}
  for (const route of routes) {
    const path = route.path.replace(/:([a-z]+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Gantry',
      version: contractVersion,
      description: 'Tool calls of agents, kept until they have their one outcome.',
    },
    servers: [{ url: '/' }],
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'A key, or a token of an issuer that is trusted here.' },
      },
      schemas: componentSchemas(),
    },
  }
}

function operation(route: Route): { [key: string]: unknown } {
  const { id, tag, summary, access, permission, body } = route
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(permission === undefined ? {} : { description: `Needs the permission \`${permission}\`.` }),
    ...(access === 'key' ? {} : { security: access === 'open' ? [] : [{}, { key: [] }] }),
    parameters: parameters(route),
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: responses(route),
  }
}

function parameters({ path, query = {}, headers = {} }: Route): unknown[] {
  const inPath = [...path.matchAll(/:([a-z]+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: idParameter,
  }))
  const inQuery = Object.entries(query).map(([name, schema]) => ({ name, in: 'query', schema }))
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: 'header',
    description,
    schema: { type: 'string' },
  }))
  return [...inPath, ...inQuery, ...inHeader]
}

function requestBody({ members, required }: NonNullable<Route['body']>): unknown {
  const schema = { type: 'object', properties: members, required, additionalProperties: false }
  return { required: true, content: { 'application/json': { schema } } }
}

function responses({ method, answers, errors = [], access }: Route): { [status: string]: unknown } {
  const refused: { [status: string]: unknown } = {}
  const possible = new Set<ErrorCode>([
    ...common,
    ...(access === 'open' ? [] : (['UNAUTHENTICATED'] as const)),
    ...(method === 'POST' ? (['PAYLOAD_TOO_LARGE'] as const) : []),
    ...errors,
  ])
  const byStatus = Map.groupBy(possible, (code): CodeInfo['http'] => codes[code].http)
  for (const [status, names] of byStatus) {
    const content = { 'application/json': { schema: ref('ErrorBody') } }
    refused[status] = { description: `${names.toSorted().join(', ')}.`, content }
  }
  const given = Object.entries(answers).map(([status, answer]) => [status, response(answer, Number(status))])
  return { ...Object.fromEntries(given), ...refused }
}

function response(
  { description, schema, type = 'application/json', headers = {} }: AnswerDoc,
  status: number,
): unknown {
  const shape = status >= 400 ? ref('ErrorBody') : schema
  const named = Object.entries(headers).map(([name, text]) => [name, { description: text, schema: { type: 'string' } }])
  return {
    description,
    ...(named.length === 0 ? {} : { headers: Object.fromEntries(named) }),
    ...(shape === undefined && type === 'application/json'
      ? {}
      : { content: { [type]: shape === undefined ? {} : { schema: shape } } }),
  }
}

type Named = { [name: string]: JsonSchema }

/**
 * Every schema of the document by its name. The schemas of the contract each have definitions of their own; here these
 * are components as well, once, because few OpenAPI readers support schemas with their own ids.
 */
function componentSchemas(): Named {
  const { result, 'stream-event': streamEvent, chain, 'chain-result': chainResult } = schemas
  const named: Named = {}
  // A definition of a chain has the name of a schema of the service, and is another one.
  takeParts(named, result, '')
  takeParts(named, chain, 'Chain')
  takeParts(named, chainResult, '')
  named.StreamEvent = own(streamEvent, '')
  named.Chain = own(chain, 'Chain')
  named.ChainResult = own(chainResult, '')
  return { ...named, ...viewSchemas }
}

function takeParts(
  named: Named,
  schema: { readonly $defs: { readonly [part: string]: JsonSchema } },
  prefix: string,
): void {
  for (const [part, definition] of Object.entries(schema.$defs)) named[nameOf(part, prefix)] = moved(definition, prefix)
}

/** A schema without the keywords of a document of its own. */
function own(schema: { readonly [keyword: string]: unknown }, prefix: string): JsonSchema {
  const { $schema: _dialect, $id: _id, $defs: _parts, ...rest } = schema
  return moved(rest, prefix) as JsonSchema
}

/** The same with its references pointing to the components. */
function moved<T>(schema: T, prefix: string): T {
  if (Array.isArray(schema)) return schema.map((item: unknown) => moved(item, prefix)) as T
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) =>
      key === '$ref'
        ? [
            key,
            String(value).replace(
              /^#\/\$defs\/(.+)$/,
              (_, part: string) => `#/components/schemas/${nameOf(part, prefix)}`,
            ),
          ]
        : [key, moved(value, prefix)],
    ),
  ) as T
}

function nameOf(part: string, prefix: string): string {
  return `${prefix}${part.charAt(0).toUpperCase()}${part.slice(1)}`
}
