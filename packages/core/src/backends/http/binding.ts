import type { HttpAuth, HttpBinding, HttpBody, HttpParameter, Issue, ParameterStyle } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { flag, listOf, mapOf, oneOf, record, refuseConfig, ruled, text } from './check.ts'
import { authList, authShape, headerNameFault, headerValueFault, impliedHeaderFault } from './headers.ts'
import {
  type Base,
  baseFault,
  namesIn,
  type ParameterTarget,
  readBase,
  readTemplate,
  type Segment,
  templateFault,
} from './parameters.ts'

/** A binding that was found sound, ready to make requests from arguments. */
export interface Plan {
  readonly method: string
  /** Instead of the backend's own, when there. */
  readonly base: Base | undefined
  readonly path: readonly Segment[]
  readonly query: readonly ParameterTarget[]
  readonly header: readonly ParameterTarget[]
  readonly cookie: readonly ParameterTarget[]
  /** Arguments that go somewhere by name; the rest go together. */
  readonly placed: ReadonlySet<string>
  readonly body: HttpBody | undefined
  /** As written, references to secrets included. */
  readonly headers: { readonly [name: string]: string }
  readonly constants: { readonly [name: string]: string }
  /** Instead of the backend's own, when there. */
  readonly auth: readonly HttpAuth[] | undefined
  readonly response: NonNullable<HttpBinding['response']>
  readonly idempotencyHeader: string | false | undefined
}

/** A set of headers that the configuration may send. */
export const headersShape = mapOf(ruled(headerValueFault), headerNameFault)
/** The header for the idempotency key, or false for none. */
export const idempotencyShape = (value: unknown, path: string): readonly Issue[] =>
  value === false ? [] : ruled(headerNameFault)(value, path)

const shape = record(
  {
    kind: oneOf('http'),
    name: text,
    method: ruled(methodFault),
    path: ruled(templateFault),
    baseUrl: ruled(baseFault),
    params: mapOf(
      record(
        {
          in: oneOf('path', 'query', 'header', 'cookie'),
          name: text,
          style: oneOf('simple', 'label', 'matrix', 'form', 'spaceDelimited', 'pipeDelimited', 'deepObject'),
          explode: flag,
          allowReserved: flag,
          json: flag,
        },
        ['in'],
      ),
    ),
    body: record(
      {
        type: oneOf('json', 'form', 'multipart', 'text', 'binary'),
        arg: text,
        mediaType: ruled(headerValueFault),
        files: listOf(text),
        encoding: mapOf(
          record({ style: oneOf('form', 'spaceDelimited', 'pipeDelimited', 'deepObject'), explode: flag }, []),
        ),
      },
      ['type'],
    ),
    headers: headersShape,
    query: mapOf(text),
    auth: authShape,
    response: oneOf('auto', 'json', 'text', 'base64', 'sse', 'ndjson', 'chunks'),
    idempotencyHeader: idempotencyShape,
  },
  ['path'],
)

function methodFault(method: string): string | undefined {
  if (!/^[A-Za-z]{1,20}$/.test(method)) return 'is not an HTTP method'
  return /^(?:connect|trace)$/i.test(method) ? 'must not be CONNECT or TRACE' : undefined
}

/** Checks a binding and prepares it; throws CONFIG_INVALID with the paths in it that are wrong. */
export function readBinding(given: object, tool: string): Plan {
  const what = `The http binding of ${tool}`
  refuseConfig(what, shape(given, ''))
  const binding = given as HttpBinding
  const { body, params = {}, auth } = binding
  refuseConfig(what, [...paramIssues(binding, params), ...bodyIssues(body)])
  const places = Object.entries(params).map(([argument, param]) => placeOf(argument, param))
  const inPath = places.filter(({ argument }) => params[argument]?.in === 'path')
  const path = readTemplate(
    binding.path,
    (name) => inPath.find((place) => place.name === name) ?? placeOf(name, { in: 'path' }),
  )
  const written = path.flat().flatMap((part) => (typeof part === 'string' ? [] : [part.argument]))
  return {
    base: binding.baseUrl === undefined ? undefined : readBase(binding.baseUrl),
    method: (binding.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase(),
    path,
    query: places.filter(({ argument }) => params[argument]?.in === 'query'),
    header: places.filter(({ argument }) => params[argument]?.in === 'header'),
    cookie: places.filter(({ argument }) => params[argument]?.in === 'cookie'),
    placed: new Set([...Object.keys(params), ...written, ...(body?.arg === undefined ? [] : [body.arg])]),
    body,
    headers: binding.headers ?? {},
    constants: binding.query ?? {},
    auth: auth === undefined ? undefined : authList(auth),
    response: binding.response ?? 'auto',
    idempotencyHeader: binding.idempotencyHeader,
  }
}

/** A place with OpenAPI's defaults for what the binding leaves out. */
function placeOf(argument: string, param: HttpParameter): ParameterTarget {
  const style = param.style ?? (param.in === 'path' || param.in === 'header' ? 'simple' : 'form')
  return {
    argument,
    name: param.name ?? argument,
    style,
    explode: param.explode ?? style === 'form',
    reserved: param.allowReserved === true,
    json: param.json === true,
  }
}

const stylesIn: { readonly [where in HttpParameter['in']]: readonly ParameterStyle[] } = {
  path: ['simple', 'label', 'matrix'],
  query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
  header: ['simple'],
  cookie: ['form'],
}

function paramIssues(binding: HttpBinding, params: NonNullable<HttpBinding['params']>): Issue[] {
  const inTemplate = new Set(namesIn(binding.path))
  const issues = Object.entries(params).flatMap(([argument, param]): Issue[] => {
    const path = `/params/${escapeSegment(argument)}`
    const message = paramFault(argument, param, inTemplate)
    return message === undefined ? [] : [{ path, message }]
  })
  const named = new Set(
    Object.entries(params).flatMap(([arg, { in: where, name = arg }]) => (where === 'path' ? [name] : [])),
  )
  for (const name of inTemplate) {
    if (named.has(name) || !Object.hasOwn(params, name)) continue
    issues.push({ path: '/path', message: `names {${name}}, which /params puts elsewhere` })
  }
  return issues
}

function paramFault(argument: string, param: HttpParameter, inTemplate: ReadonlySet<string>): string | undefined {
  const { in: where, name, style } = param
  const allowed = stylesIn[where]
  if (style !== undefined && !allowed.includes(style))
    return `goes into the ${where}, where style is ${allowed.join(', ')}`
  if (where === 'path' && !inTemplate.has(name ?? argument)) return `is not in the path as {${name ?? argument}}`
  if (where === 'header') return name === undefined ? impliedHeaderFault(argument) : headerNameFault(name)
  return undefined
}

function bodyIssues(body: HttpBody | undefined): Issue[] {
  const bare = body !== undefined && body.arg === undefined && (body.type === 'text' || body.type === 'binary')
  return bare ? [{ path: '/body/arg', message: `is required for a body of type ${body.type}` }] : []
}
