import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'

/**
 * Reads a request as an OpenAPI document describes it, by code that shares nothing with the import: what a server of
 * that document would see. Throws an assertion for everything that the document does not allow.
 */
export type Value = ReturnType<typeof JSON.parse>

export interface Replayed {
  readonly operationId: string
  /** By place and name: `query.limit`. */
  readonly values: { readonly [place: string]: Value }
  readonly body: Value
  readonly answer: { readonly mediaType: string; readonly schema: Value } | undefined
}

export async function replay(document: Value, base: string, request: IncomingMessage, data: Buffer): Promise<Replayed> {
  const url = new URL(request.url ?? '', 'http://x')
  const raw = (request.url ?? '').split('?')[0] ?? ''
  assert.ok(raw.startsWith(base), `${raw} is below ${base}`)
  const [template, item] = findPath(document, raw.slice(base.length))
  const operation = item[(request.method ?? '').toLowerCase()]
  assert.ok(operation, `${request.method} ${template} exists`)
  const declared: Value[] = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) =>
    deref(document, one),
  )
  const parameters = new Map(declared.map((one) => [`${one.in}.${one.name}`, one]))
  const values: { [place: string]: Value } = {}
  for (const [key, parameter] of parameters) {
    const value = readers[parameter.in as keyof typeof readers](parameter, {
      document,
      template,
      raw: raw.slice(base.length),
      url,
      request,
    })
    if (value === undefined) assert.ok(parameter.required !== true, `${key} is required`)
    else values[key] = fitting(document, parameter.schema ?? {}, value, key)
  }
  checkQuery(document, url, [...parameters.values()], operation)
  checkCredentials(document, operation, request, url)
  return {
    operationId: operation.operationId,
    values,
    body: await readBody(document, operation, request, data),
    answer: answerOf(document, operation),
  }
}

interface Seen {
  readonly document: Value
  readonly template: string
  readonly raw: string
  readonly url: URL
  readonly request: IncomingMessage
}

export function deref(document: Value, value: Value): Value {
  if (typeof value?.$ref !== 'string') return value
  const keys: string[] = value.$ref.slice(2).split('/')
  return deref(
    document,
    keys.reduce((at, key) => at[key.replaceAll('~1', '/')], document),
  )
}

/** A template without braces comes first, as the specification says. */
function findPath(document: Value, path: string): [string, Value] {
  const sorted = Object.keys(document.paths).sort((a, b) => Number(a.includes('{')) - Number(b.includes('{')))
  const found = sorted.find((template) => new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, '([^/]+)')}$`).test(path))
  if (found === undefined) return assert.fail(`${path} is in the document`)
  return [found, document.paths[found]]
}

function pathText({ name }: Value, { template, raw }: Seen): string {
  const names = [...template.matchAll(/\{([^}]+)\}/g)].map((match) => match[1])
  const match = new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, '([^/]+)')}$`).exec(raw)
  return match?.[names.indexOf(name) + 1] ?? ''
}

const readers = {
  path(parameter: Value, seen: Seen): Value {
    const text = pathText(parameter, seen)
    const { style = 'simple', explode = false, name } = parameter
    if (style === 'label') return split(seen.document, parameter, text.slice(1), explode ? '.' : ',')
    if (style !== 'matrix') return split(seen.document, parameter, text, ',')
    const plain = text.slice(1)
    if (explode) return split(seen.document, parameter, plain.replaceAll(`${name}=`, ''), ';')
    return split(seen.document, parameter, plain.slice(name.length + 1), ',')
  },
  query(parameter: Value, { document, url }: Seen): Value {
    const { name, style = 'form', explode = style === 'form', content } = parameter
    const pairs = url.search
      .slice(1)
      .split('&')
      .filter(Boolean)
      .map((pair) => pair.split('='))
    const own = pairs.filter(([key = '']) => decodeURIComponent(key) === name).map(([, value = '']) => value)
    const schema = deref(document, parameter.schema ?? {})
    if (content !== undefined) return own[0] === undefined ? undefined : JSON.parse(decodeURIComponent(own[0]))
    if (style === 'deepObject') {
      const members = pairs.flatMap(([key = '', value = '']) => {
        const inner = /^(.+)\[(.+)\]$/.exec(decodeURIComponent(key))
        return inner?.[1] === name ? [[inner?.[2], decodeURIComponent(value)]] : []
      })
      return members.length === 0 ? undefined : Object.fromEntries(members)
    }
    if (schema.type === 'object' && explode) {
      const members = pairs.filter(([key = '']) => Object.hasOwn(schema.properties, key))
      return members.length === 0
        ? undefined
        : Object.fromEntries(members.map(([key, value = '']) => [key, decodeURIComponent(value)]))
    }
    if (own.length === 0) return undefined
    if (schema.type === 'array' && explode) return own.map(decodeURIComponent)
    const separators: { [style: string]: string } = { spaceDelimited: '%20', pipeDelimited: '%7C' }
    return split(document, parameter, own[0] ?? '', separators[style] ?? ',')
  },
  header(parameter: Value, { document, request }: Seen): Value {
    const text = request.headers[String(parameter.name).toLowerCase()]
    return typeof text === 'string' ? split(document, parameter, text, ',', (part) => part) : undefined
  },
  cookie(parameter: Value, { request }: Seen): Value {
    const pairs = (request.headers.cookie ?? '').split('; ').map((pair) => pair.split('='))
    const found = pairs.find(([name]) => name === parameter.name)?.[1]
    return found === undefined ? undefined : decodeURIComponent(found)
  },
}

/** A text as the list, the object or the single value that its schema says it is. */
function split(
  document: Value,
  { schema = {}, explode }: Value,
  text: string,
  by: string,
  read = decodeURIComponent,
): Value {
  const { type } = deref(document, schema)
  const items = text.split(by)
  if (type === 'array') return items.map(read)
  if (type !== 'object') return read(text)
  if (explode === true) return Object.fromEntries(items.map((item) => item.split('=').map(read)))
  return Object.fromEntries(
    items.flatMap((key, index) => (index % 2 === 0 ? [[read(key), read(items[index + 1] ?? '')]] : [])),
  )
}

/** The value in the type that its schema asks for; fails when it has another. */
function fitting(document: Value, given: Value, value: Value, at: string): Value {
  const schema = deref(document, given)
  const [type] = [schema.type].flat()
  if (schema.enum !== undefined) assert.ok(schema.enum.includes(value), `${at} is one of ${schema.enum}`)
  if (type === 'array') {
    assert.ok(Array.isArray(value), `${at} is a list`)
    return value.map((item, index) => fitting(document, schema.items ?? {}, item, `${at}/${index}`))
  }
  if (type === 'object') {
    assert.equal(typeof value, 'object', `${at} is an object`)
    for (const name of schema.required ?? []) assert.ok(Object.hasOwn(value, name), `${at} has ${name}`)
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [
        name,
        fitting(document, schema.properties?.[name] ?? {}, item, `${at}/${name}`),
      ]),
    )
  }
  if (type === 'integer' || type === 'number') {
    assert.ok(Number.isFinite(Number(value)) && value !== '', `${at} is a number, not ${value}`)
    return Number(value)
  }
  if (type === 'boolean') {
    assert.match(String(value), /^(?:true|false)$/, `${at} is a boolean`)
    return String(value) === 'true'
  }
  if (type === 'string') assert.equal(typeof value, 'string', `${at} is a text`)
  return value
}

function checkQuery(document: Value, url: URL, parameters: readonly Value[], operation: Value): void {
  const objects = parameters.flatMap(({ schema }) => Object.keys(deref(document, schema ?? {}).properties ?? {}))
  const keys = (operation.security ?? document.security ?? [])
    .flatMap(Object.keys)
    .map((name: string) => document.components.securitySchemes[name].name)
  const known = [...parameters.map(({ name }) => name), ...objects, ...keys]
  for (const name of url.searchParams.keys()) {
    assert.ok(known.includes(name) || known.includes(name.replace(/\[.*$/, '')), `the query ${name} is known`)
  }
}

function checkCredentials(document: Value, operation: Value, { headers }: IncomingMessage, url: URL): void {
  const needed: Value[] = operation.security ?? document.security ?? []
  const given = (name: string): boolean => {
    const scheme = document.components.securitySchemes[name]
    if (scheme.type === 'apiKey' && scheme.in === 'query')
      return url.searchParams.get(scheme.name) === `value of ${name}`
    if (scheme.type === 'apiKey') return headers[scheme.name.toLowerCase()] === `value of ${name}`
    return headers.authorization === `Bearer value of ${name}`
  }
  assert.ok(needed.length === 0 || needed.some((one) => Object.keys(one).every(given)), 'the credentials are there')
}

async function readBody(document: Value, operation: Value, { headers }: IncomingMessage, data: Buffer): Promise<Value> {
  const body = deref(document, operation.requestBody)
  if (body === undefined) assert.equal(data.length, 0, 'there is no body')
  if (body === undefined || (data.length === 0 && body.required !== true)) return undefined
  const type = (headers['content-type'] ?? '').split(';')[0] ?? ''
  assert.ok(Object.hasOwn(body.content, type), `${type} is one of ${Object.keys(body.content)}`)
  const { schema } = body.content[type]
  if (type === 'application/octet-stream') return data.toString('base64')
  if (type.startsWith('text/')) return data.toString()
  if (/json$/.test(type)) {
    const value = JSON.parse(data.toString())
    fitting(document, schema, value, 'body')
    return value
  }
  const form = await new Response(data, { headers: { 'content-type': headers['content-type'] ?? '' } }).formData()
  const members: { [name: string]: Value } = {}
  for (const [name, value] of form) {
    members[name] = typeof value === 'string' ? value : Buffer.from(await value.arrayBuffer()).toString('base64')
  }
  return fitting(document, schema, members, 'body')
}

function answerOf(document: Value, operation: Value): Replayed['answer'] {
  const code = Object.keys(operation.responses).find((one) => one.startsWith('2'))
  const content = code === undefined ? undefined : deref(document, operation.responses[code]).content
  const mediaType = Object.keys(content ?? {}).find((type) => /json$/.test(type))
  return mediaType === undefined ? undefined : { mediaType, schema: content[mediaType].schema }
}

/** A value that a schema allows, with text that every place must encode. */
export function sampleOf(document: Value, given: Value, depth = 0): Value {
  const schema = deref(document, given)
  if (schema.enum !== undefined) return schema.enum[0]
  const [type] = [schema.type].flat()
  if (type === 'integer' || type === 'number') return Math.max(schema.minimum ?? 7, 7)
  if (type === 'boolean') return true
  if (type === 'array') return depth > 4 ? [] : Array(2).fill(sampleOf(document, schema.items ?? {}, depth + 1))
  if (type === 'object') {
    const members = Object.entries(schema.properties ?? {})
    return Object.fromEntries(depth > 4 ? [] : members.map(([name, one]) => [name, sampleOf(document, one, depth + 1)]))
  }
  return schema.contentEncoding === 'base64' ? Buffer.from('bytes \0\xff').toString('base64') : 'a b&c=d/e;f%41?g#h'
}
