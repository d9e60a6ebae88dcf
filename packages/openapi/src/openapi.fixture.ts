import assert from 'node:assert/strict'
import type { HttpBinding, Tool } from '@gantry/contract'
import { importOpenapi, type OpenapiImport, type OpenapiOptions } from './index.ts'

type Members = { readonly [key: string]: unknown }

/** A small document around some paths. */
export function documentOf(paths: Members, rest: Members = {}): Members {
  return {
    openapi: '3.0.3',
    info: { title: 'T', version: '2.1.0' },
    servers: [{ url: 'https://api.example.com/v1' }],
    paths,
    ...rest,
  }
}

export function importOf(paths: Members, rest: Members = {}, options: Partial<OpenapiOptions> = {}): OpenapiImport {
  return importOpenapi(documentOf(paths, rest), { name: 'api', ...options })
}

/** The only tool of a document with one operation. */
export function toolOf(method: string, operation: Members, rest: Members = {}, path = '/x'): Tool {
  const { tools, report } = importOf({ [path]: { [method]: { responses: {}, ...operation } } }, rest)
  assert.deepEqual(report.leftOut, [])
  return tools[0] ?? assert.fail('there is no tool')
}

export function bindingOf(tool: Tool): HttpBinding {
  return (tool.backends[0] ?? assert.fail('there is no binding')) as HttpBinding
}

/** The input schema of a POST whose JSON body has this schema under the argument `body`. */
export function bodySchema(schema: unknown, rest: Members = {}): Members {
  const wrapped = { allOf: [schema] }
  const tool = toolOf('post', { requestBody: { content: { 'application/json': { schema: wrapped } } } }, rest)
  const { properties } = tool.inputSchema as { properties: { body: { allOf: [Members] } } }
  return properties.body.allOf[0]
}
