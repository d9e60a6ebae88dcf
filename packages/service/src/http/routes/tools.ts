import { createHash } from 'node:crypto'
import { listedTool } from '@gantry/core/internal/catalogs/describe'
import { json } from '../answer.ts'
import type { Route } from '../route.ts'
import { type CatalogTool, ref } from '../schemas.ts'

const tag = 'tools'
const text = { type: 'string' } as const

const findTools: Route = {
  id: 'findTools',
  method: 'GET',
  path: '/v1/tools',
  tag,
  summary:
    'The tools that are visible to the caller: with a query the matches, best first; without one all of them, by id.',
  access: 'key',
  query: {
    query: { ...text, minLength: 0, maxLength: 1_000 },
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000,
      description: 'With a query at most 100, and 10 when absent; else 100 when absent.',
    },
    cursor: { ...text, maxLength: 8_192, description: 'From the page before.' },
    namespace: { ...text, maxLength: 200 },
    tag: { ...text, maxLength: 200 },
    versions: { enum: ['all'], description: 'Every version, newest first, instead of the newest stable one.' },
  },
  answers: {
    200: {
      description: 'A page of tools.',
      schema: {
        type: 'object',
        properties: {
          items: { type: 'array', items: { anyOf: [ref('FoundTool'), ref('ListedTool')] } },
          cursor: text,
          warning: ref('Warning'),
        },
        required: ['items'],
      },
    },
  },
  errors: ['INPUT_INVALID'],
  async handle({ query: { query, versions, ...filter }, identity, gone }, { executor }) {
    if (query !== undefined) return json(await executor.search(String(query), { ...filter, identity, signal: gone }))
    const page = executor.tools({ ...filter, allVersions: versions === 'all', identity })
    return json({ ...page, items: page.items.map(listedTool) })
  },
}

const describeTool: Route = {
  id: 'describeTool',
  method: 'GET',
  path: '/v1/tools/:id',
  tag,
  summary: 'The documentation of one tool, at one of four levels.',
  access: 'key',
  query: {
    level: { enum: ['summary', 'types', 'schema', 'full'], description: '`summary` when absent.' },
    maxTokens: { type: 'integer', minimum: 1, description: 'About how long the answer may be.' },
    examples: { type: 'integer', minimum: 0, description: 'How many examples at most.' },
  },
  answers: { 200: { description: 'The tool.', schema: ref('ToolDoc') } },
  errors: ['INPUT_INVALID', 'TOOL_ID_INVALID', 'TOOL_NOT_FOUND'],
  async handle({ params: { id = '' }, query, identity }, service) {
    return json(await service.executor.describe(id, { ...query, identity }))
  },
}

const readCatalog: Route = {
  id: 'readCatalog',
  method: 'GET',
  path: '/v1/catalog',
  tag,
  summary: 'Every version of every tool that the caller may use, with digests, and the hash of all of them.',
  access: 'key',
  query: {
    limit: { type: 'integer', minimum: 1, maximum: 1_000, description: '1,000 when absent.' },
    cursor: { ...text, maxLength: 8_192, description: 'From the page before.' },
  },
  headers: { 'If-None-Match': 'The ETag of an earlier answer.' },
  answers: {
    200: {
      description: 'A page of the catalog. The hash is the same as long as nothing that the caller may use changes.',
      headers: { ETag: 'Names this answer, the same as long as the caller would get the same page.' },
      schema: {
        type: 'object',
        properties: { hash: text, items: { type: 'array', items: ref('CatalogTool') }, cursor: text },
        required: ['hash', 'items'],
      },
    },
    304: { description: 'The caller has the current page.', headers: { ETag: 'Names the page.' } },
  },
  errors: ['INPUT_INVALID'],
  handle({ query, identity, headers }, { executor }) {
    const page = executor.tools({ limit: 1_000, ...query, allVersions: true, identity })
    const items = page.items.map(
      ({ key, tool, digest, source }): CatalogTool => ({
        id: key,
        version: tool.version,
        digest,
        effect: tool.effect,
        source,
      }),
    )
    const body = { hash: executor.hashFor(identity), ...page, items }
    // Of the page and not of the hash: what is visible to a caller can change while the tools do not.
    const etag = `"${createHash('sha256').update(JSON.stringify(body)).digest('hex')}"`
    if (names(headers['if-none-match'], etag)) return { kind: 'empty', status: 304, headers: { etag } }
    return json(body, 200, { etag })
  },
}

function names(header: string | undefined, etag: string): boolean {
  const named = (header ?? '').split(',').map((one) => one.trim().replace(/^W\//, ''))
  return named.includes(etag) || named.includes('*')
}

export const toolRoutes: readonly Route[] = [findTools, describeTool, readCatalog]
