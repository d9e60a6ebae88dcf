import type { EntryPoint } from '@gantry/conformance/internal/stalls'
import { type Json, type JsonSchema, ToolError } from '@gantry/contract'
import { compileSchema } from '@gantry/json-schema'
import { errorOutput, lineReader } from '@gantry/mcp/internal/client/child-process'
import { plainText } from '@gantry/mcp/internal/client/logs'
import { importOpenapi } from '@gantry/openapi'
import { parseAllow, parseAuthority, parsePath, parseTarget } from '@gantry/sandbox/internal/egress-proxy/origins'
import { createGatewayChannel } from '@gantry/sandbox/internal/launcher/gateway-channel'
import { createLines } from '@gantry/sandbox/internal/launcher/message-lines'
import { looksLikeModule } from '@gantry/sandbox-wasm/internal/quickjs/evaluate'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { demoTools } from '@gantry/tools/internal/demo'
import { htmlText } from '@gantry/tools/internal/web/html-text'
import { mediaType } from './artifacts/artifact.ts'
import { readTemplate, templateFault } from './backends/http/parameters.ts'
import { createEventReader, createLineReader } from './backends/http/response.ts'
import { firstSentences } from './catalogs/describe.ts'
import { readGatewayRequest } from './code/gateway-request.ts'
import { createEgressGuard } from './egress/guard.ts'
import { parseRules } from './egress/rules.ts'
import { secretNames } from './ids/secret-reference.ts'
import { canonicalJson } from './json/canonical.ts'
import { parseAnswer, parseJson } from './json/parse.ts'
import { copyJson, JsonError } from './json/plain.ts'
import { createRedactor } from './json/redact.ts'
import { rules } from './policies/rules.ts'
import { defineTool } from './tools/tool.ts'
import { readTraceparent } from './tracing/tracer.ts'

const { signal } = new AbortController()
const formats = [
  'date',
  'time',
  'date-time',
  'duration',
  'email',
  'idn-email',
  'hostname',
  'idn-hostname',
  'ipv4',
  'ipv6',
  'uri',
  ...[
    'uri-reference',
    'iri',
    'iri-reference',
    'uri-template',
    'json-pointer',
    'relative-json-pointer',
    'uuid',
    'regex',
  ],
]
const patterns = ['^\\s*a', '(a+)+$', '\\s+$', '^(\\w+\\s?)*$', '(.*)x(.*)y', 'a{1,50}b', '\\p{L}+\\d']
/** Splits a long text into pieces, which exposes readers that scan the whole text again for each piece. */
const pieceLength = 1_009

/** Tools that receive the texts, in addition to the built-in ones. */
const textTools = [
  defineTool({
    namespace: 'test',
    name: 'texts',
    description: 'Takes texts of each format and pattern.',
    inputSchema: {
      type: 'object',
      properties: {
        ...Object.fromEntries(formats.map((format) => [format, { type: 'string', format }])),
        ...Object.fromEntries(patterns.map((pattern) => [pattern, { type: 'string', pattern }])),
      },
    },
    run: () => null,
  }),
  defineTool({
    namespace: 'test',
    name: 'said',
    description: 'Gives a text in each way that a tool can.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    async *run({ text = '' }: { text?: string }) {
      yield text
      return { content: [{ type: 'text', text }] }
    },
  }),
]

/** Every entry point of the library for text of callers, tools, servers and documents; `close` releases their resources. */
export function libraryEntryPoints(): { readonly points: readonly EntryPoint[]; close(): Promise<void> } {
  const gantry = createExecutor({ tools: [...demoTools(), ...builtinTools(), ...textTools] })
  const points = [...executorPoints(gantry), ...chainPoints(gantry), ...documentPoints(), ...readerPoints()]
  return { points, close: () => gantry.close() }
}

type Executor = ReturnType<typeof createExecutor>

function executorPoints(gantry: Executor): EntryPoint[] {
  const run = (tool: string, args: unknown) => gantry.run(tool, args)
  const filters = (text: string) => [{ cursor: text }, { namespace: text }, { tags: [text] }, { prefix: text }]
  return [
    { name: 'id of a tool', feed: (text) => each([text, `demo:${text}`, `demo:add:${text}`], (id) => run(id, {})) },
    { name: 'argument', feed: (text) => each([{ value: text }, { [text]: 1 }], (args) => run('demo:echo', args)) },
    { name: 'many arguments', feed: (text) => run('demo:echo', { value: piecesOf(text, 20) }) },
    { name: 'options of a call', feed: (text) => gantry.run('demo:echo', {}, { idempotencyKey: text, callId: text }) },
    { name: 'formats and patterns', feed: (text) => run('test:texts', textArguments(text)) },
    { name: 'output', feed: (text) => run('test:said', { text }) },
    { name: 'stream', feed: (text) => drained(gantry.stream('test:said', { text })) },
    { name: 'check of a call', feed: (text) => gantry.check('demo:echo', { [text]: text }) },
    { name: 'search', feed: (text) => gantry.search(text) },
    { name: 'search filters', feed: (text) => each(filters(text), (filter) => gantry.search('add', filter as object)) },
    { name: 'list filters', feed: (text) => each(filters(text), (filter) => gantry.tools(filter)) },
    { name: 'declarations', feed: (text) => gantry.declarations(text) },
    { name: 'describe', feed: (text) => gantry.describe(text) },
    { name: 'definition of a tool', feed: (text) => registered(gantry, text) },
    {
      name: 'http:fetch',
      feed: (text) => each(urlsOf(text), (url) => run('http:fetch', { url, headers: { a: text } })),
    },
    { name: 'kb:add', feed: (text) => run('kb:add', { documents: [{ id: 'a', text }] }) },
    { name: 'kb:search', feed: (text) => run('kb:search', { query: text.slice(0, 1_000) }) },
    { name: 'files:put', feed: (text) => run('files:put', { name: text.slice(0, 200), content: text }) },
    {
      name: 'files:list',
      feed: (text) => run('files:list', { prefix: text.slice(0, 200), cursor: text.slice(0, 3_000) }),
    },
  ]
}

function chainPoints(gantry: Executor): EntryPoint[] {
  const chain = (value: string, more: object = {}) =>
    gantry.chain([{ tool: 'demo:echo', args: { value }, ...more }], { input: { a: 1 } })
  const filled = { id: 'b', tool: 'demo:echo', args: { value: 'x {{prev.value}} y {{steps.a.value}}' } }
  return [
    {
      name: 'template',
      also: ['{{prev', '.a', '[0]', '{{ '],
      feed: (text) => each([text, `{{prev${text}}}`, `{{input.${text}`], (value) => chain(value)),
    },
    { name: 'condition', feed: (text) => chain('a', { when: { ref: text, equals: text } }) },
    { name: 'filling', feed: (text) => gantry.chain([{ id: 'a', tool: 'demo:echo', args: { value: text } }, filled]) },
  ]
}

function documentPoints(): EntryPoint[] {
  const egress = createEgressGuard({ allow: ['https://api.example.com'] })
  const hidden = createRedactor({ values: ['correct-horse-battery', 'aaaaaaaa'] })
  const fetched = (url: string) => egress.request({ url, owner: 'test', method: 'GET', signal })
  const entries = (text: string) => [text, `https://${text}`, `https://*.${text}`]
  return [
    {
      name: 'question of a program',
      feed: (text) => readGatewayRequest({ number: 1, kind: 'call', text: `{"tool":${text}` }),
    },
    {
      name: 'JSON',
      also: ['{"a":', '\\u0000'],
      feed: (text) => each([text, `"${text}"`, `{"a":"${text}`, `[${text}1`], (json) => parseJson(json)),
    },
    {
      name: 'JSON of a server',
      also: ['{"a":'],
      feed: (text) => each([text, `"${text}"`, `[${text}1`], (json) => parseAnswer(json)),
    },
    { name: 'copy', feed: (text) => each([{ [text]: text }, [text, text]], (value) => copyJson(value)) },
    { name: 'canonical JSON', feed: (text) => canonicalJson({ [text]: text } as Json) },
    {
      name: 'redacted text',
      also: ['a', '&amp', '\\n'],
      feed: (text) => [hidden.text(text), hidden.cut(text, text.length - 1)],
    },
    { name: 'redacted value', factor: 6, also: ['a'], feed: (text) => hidden.value({ [text]: 1, url: `a://${text}` }) },
    { name: 'redacted bytes', feed: (text) => hidden.bytes(Buffer.from(text)) },
    { name: 'schema', feed: (text) => each(schemasOf(text), (schema) => compileSchema(schema)) },
    {
      name: 'OpenAPI document',
      also: ['/', '_'],
      feed: (text) => each(openapiOf(text), (one) => importOpenapi(one, { name: 'api' })),
    },
    { name: 'URL', also: ['/', '%2', ':'], feed: (text) => each(urlsOf(text), fetched) },
    {
      name: 'egress rules',
      also: ['a'],
      feed: (text) => each(entries(text), (entry) => parseRules([entry], '/allow')),
    },
    { name: 'network.allow', also: ['a'], feed: (text) => each(entries(text), (entry) => parseAllow([entry])) },
    { name: 'policy', also: ['/', '*'], feed: (text) => rules([{ allow: text, when: { [text]: text } } as never]) },
    {
      name: 'HTML',
      also: ['<a ', '</', '<!--', '&amp'],
      feed: (text) => each([text, `<p title="${text}`, `<a href="${text}`], pageText),
    },
    {
      name: 'request of a sandbox',
      feed: (text) => [parseAuthority(text), parseTarget(`http://${text}`), pathIn(text)],
    },
    {
      name: 'path template',
      also: ['/', '{', '{a}'],
      feed: (text) => [templateFault(text), readTemplate(text, (name) => ({ name }) as never)],
    },
    { name: 'traceparent', feed: (text) => readTraceparent(text) },
    { name: 'secret names', feed: (text) => secretNames([text]) },
    { name: 'media type', feed: (text) => mediaType(text, Buffer.from(text)) },
    { name: 'description', feed: (text) => firstSentences(text) },
    { name: 'form of a program', also: ['export '], feed: (text) => looksLikeModule(text) },
  ]
}

/** Readers of text that arrives in pieces. */
function readerPoints(): EntryPoint[] {
  const hidden = createRedactor({ values: ['correct-horse-battery', 'aaaaaaaa'] })
  const buffers = (text: string) => piecesOf(text, pieceLength).map((piece) => Buffer.from(piece))
  return [
    {
      name: 'redacted pieces',
      also: ['a', '&amp'],
      feed: (text) => pushed(hidden.pieces(), piecesOf(text, pieceLength)),
    },
    {
      name: 'server-sent events',
      also: ['data:\n', 'data:'],
      feed: (text) => pushed(createEventReader(), piecesOf(text, pieceLength)),
    },
    { name: 'lines of JSON', feed: (text) => pushed(createLineReader(), piecesOf(text, pieceLength)) },
    { name: 'lines of an MCP server', feed: (text) => pushed(lineReader(4_000_000, ignored), buffers(text)) },
    { name: 'errors of an MCP server', feed: (text) => pushed(errorOutput(['correct-horse'], ignored), buffers(text)) },
    { name: 'log line of an MCP server', feed: (text) => plainText(text, 100_000) },
    { name: 'descriptor 3', feed: (text) => pushed(createLines({ onValue: ignored, onDone: ignored }), buffers(text)) },
    {
      name: 'gateway of a program',
      feed: (text) => each(['', '? 1 call ', '. ', '= ', '! '], (head) => said(head + text)),
    },
  ]
}

function said(line: string): void {
  createGatewayChannel({ gateway: { ask: ignored }, send: () => 0, fail: ignored }).take(line)
}

function pushed<T>(reader: { push(piece: T): unknown }, pieces: readonly T[]): void {
  for (const piece of pieces) reader.push(piece)
}

/** Runs a function for each value, and ignores values that are refused. */
async function each<T>(values: readonly T[], work: (value: T) => unknown): Promise<void> {
  for (const value of values) {
    try {
      await work(value)
    } catch (error) {
      if (!ToolError.is(error) && !(error instanceof JsonError) && !(error instanceof SyntaxError)) throw error
    }
  }
}

function ignored(): void {}

async function drained(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const event of stream) if (event === undefined) return
}

function piecesOf(text: string, length: number): string[] {
  return Array.from({ length: Math.ceil(text.length / length) }, (_, at) => text.slice(at * length, (at + 1) * length))
}

/** The total length is within the limit of arguments. */
function textArguments(text: string): object {
  const names = [...formats, ...patterns]
  const part = text.slice(0, Math.floor(text.length / names.length))
  return Object.fromEntries(names.map((name) => [name, part]))
}

function registered(gantry: Executor, text: string): void {
  const properties = { [text]: { const: text, description: text } }
  const inputSchema = { type: 'object', properties } as const
  const common = { namespace: 'new', name: 'tool', run: () => null }
  gantry.register(defineTool({ ...common, description: text, tags: [text.slice(0, 64)], inputSchema }))
  gantry.unregister('new:tool')
}

function urlsOf(text: string): string[] {
  return [text, `https://${text}`, `https://refused.example/${text}`]
}

function schemasOf(text: string): JsonSchema[] {
  const short = text.slice(0, 5_000)
  const texts = [
    { pattern: text },
    { pattern: short },
    { format: text },
    { $ref: text },
    { $id: text },
    { $anchor: text },
  ]
  return [
    ...texts,
    { properties: { [text]: { type: text } } },
    { patternProperties: { [short]: true } },
  ] as JsonSchema[]
}

function openapiOf(text: string): unknown[] {
  const operation = { operationId: text, summary: text, description: text, tags: [text], responses: {} }
  const parameters = [
    { name: text, in: 'query', description: text, schema: { type: 'string', pattern: text.slice(0, 500) } },
  ]
  const body = { content: { [text]: { schema: { $ref: `#/${text}` } } } }
  const paths = {
    [`/${text}`]: { get: { ...operation, parameters } },
    '/a': { post: { requestBody: body, responses: {} } },
  }
  const document = { openapi: '3.1.0', info: { title: text, version: text } }
  return [
    { ...document, servers: [{ url: 'https://api.example.com' }], paths },
    {
      ...document,
      servers: [{ url: `https://api.example.com/${text}a` }],
      paths: { '/a': { get: { responses: {} } } },
    },
  ]
}

function pageText(html: string): Promise<unknown> {
  return htmlText(html, 'https://example.com/', signal)
}

function pathIn(text: string): unknown {
  return parsePath(`/${text}`, { host: 'example.com', port: 443 }, true)
}
