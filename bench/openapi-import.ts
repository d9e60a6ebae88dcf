import { importOpenapi } from '@gantry/openapi'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, type Section } from './report.ts'

const operations = 1_000

/** The time to import a document of a thousand operations. */
export async function openapiImport(): Promise<Section> {
  progress('openapi-import')
  const text = JSON.stringify(document())
  const times: number[] = []
  let imported = 0
  for (let round = 0; round < 15; round += 1) {
    const parsed: unknown = JSON.parse(text)
    const start = performance.now()
    imported = importOpenapi(parsed, { name: 'bench' }).tools.length
    times.push(performance.now() - start)
  }
  const rows = [
    [
      `${imported.toLocaleString('en-US')} of ${operations.toLocaleString('en-US')} operations`,
      figure(times[0] ?? 0),
      figure(median(times)),
      figure(quantile(times, 0.9)),
      '≤ 1,000',
    ],
  ]
  const head = ['imported', 'first ms', 'p50 ms', 'p90 ms', 'target ms']
  return { title: 'Importing an OpenAPI document', tables: [{ head, rows }], notes }
}

/** Paths, parameters, bodies and shared schemas like those of a large provider. */
function document(): object {
  const schemas = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`Model${n}`, model(n)]))
  const paths = Object.fromEntries(Array.from({ length: operations / 2 }, (_, n) => [`/things${n}/{id}`, path(n)]))
  return {
    openapi: '3.0.3',
    info: { title: 'Bench', version: '1.0.0' },
    servers: [{ url: 'https://api.example.com/v1' }],
    paths,
    components: { schemas },
  }
}

function model(n: number): object {
  const next = { $ref: `#/components/schemas/Model${(n * 7 + 1) % 300}` }
  const text = { type: 'string', description: `Field of model ${n}.`, maxLength: 100, nullable: n % 3 === 0 }
  return {
    type: 'object',
    required: ['id'],
    properties: { id: { type: 'integer', format: 'int64' }, name: text, next, list: { type: 'array', items: next } },
  }
}

function path(n: number): object {
  const schema = { $ref: `#/components/schemas/Model${n % 300}` }
  const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
  const responses = { 200: { description: 'It.', content: { 'application/json': { schema } } } }
  const query = { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 10 } }
  return {
    parameters: [id],
    get: {
      operationId: `get_thing_${n}`,
      summary: `Gets thing ${n}.`,
      tags: ['things'],
      parameters: [query],
      responses,
    },
    post: {
      operationId: `change_thing_${n}`,
      summary: `Changes thing ${n}.`,
      requestBody: { required: true, content: { 'application/json': { schema } } },
      responses,
    },
  }
}

const notes = [
  'The document is made up: 1,000 operations over 300 schemas that refer to each other in a circle, so that each tool carries those it reaches. Parsing the JSON text is not counted; checking every schema with our compiler is.',
]
