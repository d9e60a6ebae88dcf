import type { HttpAuth, HttpBinding, HttpBody, HttpParameter, Issue, ParameterStyle } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { anyText, flag, mapOf, oneOf, ruled } from '../../options/option.ts'
import { checkOptions, optionsCheck, refuse } from '../../options/options.ts'
import {
  authCheck,
  authList,
  headerNameFault,
  headersCheck,
  headerValueFault,
  idempotencyCheck,
  impliedHeaderFault,
} from './headers.ts'
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

/** A compiled binding. */
export interface Plan {
  readonly method: string
  /** Overrides the base URL of the backend. */
  readonly base: Base | undefined
  readonly path: readonly Segment[]
  readonly query: readonly ParameterTarget[]
  readonly header: readonly ParameterTarget[]
  readonly cookie: readonly ParameterTarget[]
  /** Arguments with an explicit parameter; the rest go into the query or the body. */
  readonly placed: ReadonlySet<string>
  readonly body: HttpBody | undefined
  /** With references to secrets, not their values. */
  readonly headers: { readonly [name: string]: string }
  readonly constants: { readonly [name: string]: string }
  /** Overrides the auth of the backend. */
  readonly auth: readonly HttpAuth[] | undefined
  readonly response: NonNullable<HttpBinding['response']>
  readonly idempotencyHeader: string | false | undefined
}

const paramCheck = optionsCheck<HttpParameter>({
  members: {
    in: oneOf('path', 'query', 'header', 'cookie'),
    name: anyText,
    style: oneOf('simple', 'label', 'matrix', 'form', 'spaceDelimited', 'pipeDelimited', 'deepObject'),
    explode: flag,
    allowReserved: flag,
    json: flag,
  },
  required: ['in'],
})
const encodingCheck = optionsCheck<NonNullable<HttpBody['encoding']>[string]>({
  members: { style: oneOf('form', 'spaceDelimited', 'pipeDelimited', 'deepObject'), explode: flag },
})
const bodyCheck = optionsCheck<HttpBody>({
  members: {
    type: oneOf('json', 'form', 'multipart', 'text', 'binary'),
    arg: anyText,
    mediaType: ruled(headerValueFault),
    files: { type: 'array', items: anyText },
    encoding: mapOf(encodingCheck),
  },
  required: ['type'],
})
const check = optionsCheck<HttpBinding>({
  members: {
    kind: oneOf('http'),
    name: anyText,
    method: ruled(methodFault),
    path: ruled(templateFault),
    baseUrl: ruled(baseFault),
    params: mapOf(paramCheck),
    body: bodyCheck,
    headers: headersCheck,
    query: { type: 'object', additionalProperties: anyText },
    auth: authCheck,
    response: oneOf('auto', 'json', 'text', 'base64', 'sse', 'ndjson', 'chunks'),
    idempotencyHeader: idempotencyCheck,
  },
  required: ['path'],
})

function methodFault(method: string): string | undefined {
  if (!/^[A-Za-z]{1,20}$/.test(method)) return 'is not an HTTP method'
  return /^(?:connect|trace)$/i.test(method) ? 'must not be CONNECT or TRACE' : undefined
}

/** Checks and compiles a binding; throws CONFIG_INVALID with the failing paths. */
export function readBinding(given: object, tool: string): Plan {
  const what = `http binding of ${tool}`
  const binding: unknown = given
  checkOptions(what, check, binding)
  const { body, params = {}, auth } = binding
  refuse(what, [...paramIssues(binding, params), ...bodyIssues(body)])
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

/** A parameter with the defaults of OpenAPI. */
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
