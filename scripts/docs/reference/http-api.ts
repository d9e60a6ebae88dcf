import { isObject } from '@gantry/contract/internal/json'
import { openApiDocument } from '@gantry/service/internal/http/openapi'
import { allRoutes } from '@gantry/service/internal/http/routes'
import { typeOf } from './config-keys.ts'

type Members = { readonly [key: string]: unknown }

/** docs/reference/http-api.md, from the OpenAPI document of the service. */
export function httpApiPage(): string {
  const { paths, components } = openApiDocument(allRoutes())
  const operations = Object.entries(asObject(paths)).flatMap(([path, methods]) =>
    Object.entries(asObject(methods)).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation: asObject(operation),
    })),
  )
  const rows = operations.map(
    ({ path, method, operation }) =>
      `| [\`${method} ${path}\`](#${text(operation.operationId).toLowerCase()}) | ${cell(text(operation.summary))} |`,
  )
  const schemas = Object.entries(asObject(asObject(components).schemas))
  return `# HTTP API reference

Every request of the HTTP API, with its parameters and answers. [The HTTP API](../http-api.md) explains how to use it. The page is written by \`npm run docs -- --write\` from the OpenAPI document that a service answers at \`GET /v1/openapi.json\`.

| request | what it does |
| --- | --- |
${rows.join('\n')}

A caller sends \`Authorization: Bearer KEY\`, unless an operation says otherwise. A refused request has the body \`ErrorBody\`: \`{ error }\` with a [code](../errors.md).

${operations.map(section).join('\n\n')}

## Schemas

${schemas.map(([name, schema]) => schemaText(name, asObject(schema))).join('\n\n')}
`
}

function section({
  path,
  method,
  operation,
}: {
  readonly path: string
  readonly method: string
  readonly operation: Members
}): string {
  const { operationId, summary, description, parameters, requestBody, responses, security } = operation
  const list: readonly unknown[] = Array.isArray(parameters) ? parameters : []
  const given = list.map((parameter) => {
    const { name, in: place, schema, description: meaning, required } = asObject(parameter)
    const note = [required === true ? 'required' : '', text(meaning)].filter((part) => part !== '').join('; ')
    return `| \`${text(name)}\` | ${text(place)} | ${cell(schemaType(schema))} | ${cell(note)} |`
  })
  const body = asObject(asObject(asObject(asObject(requestBody).content)['application/json']).schema)
  const answers = Object.entries(asObject(responses)).map(([status, answer]) => {
    const content = Object.entries(asObject(asObject(answer).content))
    const types = content.map(([type, media]) => {
      const { schema } = asObject(media)
      const shape = schema === undefined ? '' : schemaType(schema)
      return type === 'application/json' ? shape : `\`${type}\`${shape === '' ? '' : ` ${shape}`}`
    })
    return `| ${status} | ${cell(types.join(', '))} | ${cell(text(asObject(answer).description))} |`
  })
  return [
    `### ${text(operationId)}`,
    `\`${method} ${path}\``,
    [text(summary), text(description), Array.isArray(security) ? 'Needs no key, or none from this machine.' : '']
      .filter((part) => part !== '')
      .join(' '),
    ...(given.length === 0 ? [] : [`| parameter | in | type | |\n| --- | --- | --- | --- |\n${given.join('\n')}`]),
    ...(requestBody === undefined ? [] : [`The body:\n\n${membersTable(body)}`]),
    `| status | body | |\n| --- | --- | --- |\n${answers.join('\n')}`,
  ].join('\n\n')
}

function schemaText(name: string, schema: Members): string {
  const { description, properties } = schema
  const body = isObject(properties) ? membersTable(schema) : `${schemaType({ ...schema, description: undefined })}`
  return [`### ${name}`, text(description), body].filter((part) => part !== '').join('\n\n')
}

function membersTable({ properties, required }: Members): string {
  const needed: readonly unknown[] = Array.isArray(required) ? required : []
  const rows = Object.entries(asObject(properties)).map(([name, schema]) => {
    const note = [needed.includes(name) ? 'required' : '', text(asObject(schema).description)].filter(
      (part) => part !== '',
    )
    return `| \`${name}\` | ${cell(schemaType(schema))} | ${cell(note.join('; '))} |`
  })
  return rows.length === 0 ? 'An object.' : `| member | type | |\n| --- | --- | --- |\n${rows.join('\n')}`
}

/** The type of a schema; a reference is a link to its section. */
function schemaType(schema: unknown): string {
  if (typeof schema === 'boolean') return 'any value'
  const { $ref: ref, description: _described, ...rest } = asObject(schema)
  if (typeof ref === 'string') {
    const name = ref.split('/').at(-1) ?? ''
    return `[${name}](#${name.toLowerCase()})`
  }
  const { anyOf, oneOf, allOf, items, type } = rest
  const choices = [anyOf, oneOf, allOf].find((each) => Array.isArray(each))
  if (Array.isArray(choices)) return [...new Set(choices.map(schemaType))].join(Array.isArray(allOf) ? ' and ' : ' or ')
  if (type === 'array' && isObject(items)) return `list of ${schemaType(items)}`
  if (Object.keys(rest).length === 0) return 'any value'
  return typeOf(rest)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function cell(value: string): string {
  return value.replaceAll(/(?<!\\)\|/g, '\\|').replaceAll('\n', ' ')
}

function asObject(value: unknown): Members {
  return isObject(value) ? (value as Members) : {}
}
