import { type TestContext, test } from 'node:test'
import { type EntryPoint, feedFillers } from '@gantry/conformance'
import { ToolError } from '@gantry/contract'
import { JsonError } from '@gantry/core/internal/json/plain'
import { createRedactionMark } from '@gantry/core/internal/json/redact'
import { sseData } from '@gantry/mcp/internal/server/bridge'
import { readLine } from '@gantry/mcp/internal/server/message-lines'
import { artifactIdOf } from '@gantry/mcp/internal/server/resources'
import { parseCommandLine } from 'gantry/internal/cli/parse'
import { languageIn } from 'gantry/internal/cli/program-language'
import { clip, safeBlock, safeJson, safeLine } from 'gantry/internal/cli/terminal'
import { message } from './brokers/codecs/codec.fixture.ts'
import { encodeMsgpack } from './brokers/codecs/msgpack.ts'
import { nativeCodec } from './brokers/codecs/native.ts'
import { somastackCodec } from './brokers/codecs/somastack.ts'
import { stargazerCodec } from './brokers/codecs/stargazer.ts'
import { checkCallbackUrl } from './config/callback-target.ts'
import { readEnvironment } from './config/environment.ts'
import { parseYaml } from './config/read-data.ts'
import { configIssues } from './config/schema.ts'
import { bearerOf } from './http/authentication/authenticator.ts'
import { signedRequestAuthenticator } from './http/authentication/signed-request.ts'
import { startRig } from './http/http.fixture.ts'
import { foreignCheck } from './http/server.ts'
import { openMcp } from './mcp/mcp.fixture.ts'
import { createLog } from './observe/logs.ts'
import { foldLabels } from './observe/metrics.ts'
import { shownPayload } from './storage/dead-letters/dead-letter-rows.ts'
import { readCursor } from './storage/page-cursor.ts'
import { searchText } from './worker/tools/artifact-tools.ts'

/** Longer headers and targets are refused by Node before anything here reads them. */
const longestHead = 12_000
/** Each mistake in a YAML document is an object of the parser, so that 256 KB of them, the limit, take seconds. */
const longestYaml = 40_000

/** The parsers of the service for texts of callers, gateways and operators that need no connection. */
function parserPoints(): EntryPoint[] {
  const codecs = [
    nativeCodec({ transport: 'redis', mayReplyTo: () => true, deadLettersTo: 'dead' }),
    somastackCodec(),
    stargazerCodec({ mayReplyTo: () => true }),
  ]
  const decoded = (bytes: string | Uint8Array) => {
    for (const codec of codecs) if (codec.speaks(message(bytes))) codec.decode(message(bytes))
  }
  const signed = signedRequestAuthenticator({ find: () => undefined, used: () => undefined } as never, {
    use: async () => [],
  })
  const headers = (text: string) => ({ signature: text, 'signature-input': text, 'content-digest': text, host: text })
  const presented = (text: string) => ({ method: 'POST', path: `/${text}?${text}`, headers: headers(text) })
  const foreign = foreignCheck({ host: '127.0.0.1', hosts: ['a.example'], origins: [], secure: false } as never)
  const log = createLog('info', { write: () => undefined })
  return [
    { name: 'language of a program', feed: (text) => languageIn(text) },
    { name: 'gateway message', feed: (text) => each(messagesWith(text), decoded), also: ['{"a":'] },
    { name: 'MessagePack message', feed: (text) => decoded(encodeMsgpack({ tool: 'a:b', args: { a: text } })) },
    { name: 'bytes of a message', feed: (text) => decoded(Buffer.from(text)) },
    {
      name: 'signed request',
      feed: (text) => signed.authenticate(presented(text) as never, new AbortController().signal as never),
    },
    { name: 'bearer', feed: (text) => bearerOf({ headers: { authorization: `Bearer ${text}` } } as never) },
    {
      name: 'foreign host',
      feed: (text) => foreign({ url: text, headers: { origin: text }, headersDistinct: { host: [text] } } as never),
    },
    { name: 'command line', feed: (text) => each(commandLines(text), parseCommandLine) },
    { name: 'terminal, block', feed: (text) => safeBlock(text) },
    { name: 'terminal, JSON', feed: (text) => safeJson({ [text]: 1 }) },
    { name: 'terminal, line', feed: (text) => clip(safeLine(text), 80) },
    { name: 'environment', feed: (text) => readEnvironment(variables(text)), also: ['a=', ','] },
    { name: 'YAML', feed: (text) => parseYaml('a.yaml', `a: ${text.slice(0, longestYaml)}`), factor: 4 },
    { name: 'configuration', feed: (text) => configIssues({ [text]: text, service: { host: text } }) },
    { name: 'MCP line', feed: (text) => each(mcpLines(text), (line) => readLine(line, mcp)), also: ['{"a":'] },
    { name: 'MCP events', feed: (text) => drained(sseData(streamOf(text), 10_000_000)), also: ['data:\n', 'data:'] },
    { name: 'artifact URI', feed: (text) => artifactIdOf(`gantry://artifacts/${text}`) },
    {
      name: 'metrics',
      feed: (text) => foldLabels(`a{tool="${text}"} 1\na{${text}} 1`, ['tool']),
      also: ['a', 'a="'],
      factor: 2,
    },
    { name: 'log', feed: (text) => log.info({ reason: text }, 'failed'), factor: 3 },
    { name: 'search in a file', feed: (text) => searchText(buffersOf(text), searched), also: ['a'] },
    { name: 'callback', feed: (text) => checkCallbackUrl(text) },
    {
      name: 'dead letter',
      feed: (text) => each([text, `{"password":"${text}`], (payload) => shownPayload(payload, mark)),
      also: ['"\\'],
      // As for logs: each of 125,000 redacted passwords gets its own keyed digest.
      factor: 3,
    },
    { name: 'cursor', feed: (text) => readCursor(text) },
  ]
}

const mark = createRedactionMark('key')
const mcp = { isMessage: () => true, most: 4_000_000 }
const searched = { text: 'aaaaab', limit: 10, context: 100, from: 0 }

/** Fillers that a client in this process can send without more work than the service has. */
const inRequests = [' ', '\n', '"', '\\', '{{', '[', 'a.', '@', '%', '0', '\ud800', 'tools ']

/** Requests over a socket, so that the work of Node and the framework counts too. */
async function requestPoints(t: TestContext): Promise<EntryPoint[]> {
  const rig = await startRig(t)
  const mcpRig = await openMcp(t)
  const short = (text: string) => encodeURIComponent(text.slice(0, longestHead / 9).toWellFormed())
  const asked = async (path: string, init: RequestInit = {}) => void (await (await rig.ask(path, init)).arrayBuffer())
  const posted = async (path: string, body: unknown) => void (await (await rig.post(path, body)).arrayBuffer())
  const mcpPosted = async (body: string) => {
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
    await (await mcpRig.ask('/mcp', { method: 'POST', body, headers })).arrayBuffer()
  }
  const steps = (text: string) => [{ tool: 'demo:echo', args: { value: `{{prev${text}` } }]
  const mcpCall = (params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  return [
    { name: 'body', feed: (text) => posted('/v1/calls', text), also: ['{"a":'] },
    { name: 'call', feed: (text) => posted('/v1/calls', { tool: text }) },
    { name: 'argument', feed: (text) => posted('/v1/calls', { tool: 'demo:echo', args: { value: text } }) },
    { name: 'chain', feed: (text) => posted('/v1/chains', { steps: steps(text) }) },
    { name: 'program', feed: (text) => posted('/v1/code', { code: text, language: 'workflow' }) },
    { name: 'path', feed: (text) => each(['tools', 'calls', 'files'], (of) => asked(`/v1/${of}/${short(text)}`)) },
    {
      name: 'query',
      feed: (text) => each(['q', 'cursor', 'tags'], (name) => asked(`/v1/tools?${name}=${short(text)}`)),
    },
    { name: 'headers', feed: (text) => asked('/v1/tools', { headers: headersOf(text) }) },
    { name: 'MCP body', feed: (text) => mcpPosted(text), also: ['{"a":'] },
    { name: 'MCP call', feed: (text) => mcpPosted(mcpCall({ name: text })) },
    { name: 'MCP argument', feed: (text) => mcpPosted(mcpCall({ name: 'demo__echo', arguments: { value: text } })) },
  ]
}

for (const point of parserPoints()) {
  test(`no filler stalls the event loop: ${point.name}`, async () => {
    await feedFillers(point)
  })
}

test('no filler in a request stalls the event loop', async (t) => {
  for (const point of await requestPoints(t)) {
    await t.test(point.name, async () => {
      await feedFillers(point, [...inRequests, ...(point.also ?? [])])
    })
  }
})

/** Runs the work for each value, and ignores refusals. */
async function each<T>(values: readonly T[], work: (value: T) => unknown): Promise<void> {
  for (const value of values) {
    try {
      await work(value)
    } catch (error) {
      if (!ToolError.is(error) && !(error instanceof JsonError)) throw error
    }
  }
}

function messagesWith(text: string): string[] {
  const soma = { event_id: 'a', session_id: 'b', tool_name: 'demo:echo', arguments: { value: text } }
  const gazer = {
    type: 'tool.request',
    request_id: 'a',
    tool_name: 'demo:echo',
    arguments: { value: 1 },
    reply_to: text,
  }
  const values = [{ tool: 'demo:echo', args: { value: text } }, soma, gazer]
  return [...values.map((value) => JSON.stringify(value)), `{"tool":"${text}`]
}

function commandLines(text: string): string[][] {
  return [[text], ['run', text], ['run', 'a:b', `--${text}`], ['run', `--timeout=${text}`], [`-${text}`]]
}

function variables(text: string): { [name: string]: string } {
  const names = [
    'OTEL_EXPORTER_OTLP_HEADERS',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'KAFKA_BROKERS',
    'GANTRY_ROLES',
    'REDIS_URL',
  ]
  return Object.fromEntries([...names, 'DATABASE_URL', 'GANTRY_PORT', 'GANTRY_TIMEOUT_MS'].map((name) => [name, text]))
}

function mcpLines(text: string): Buffer[] {
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: text } })
  return [text, `${call}\n`, `{"id":"${text}`].map((line) => Buffer.from(line))
}

function headersOf(text: string): { [name: string]: string } {
  const value = text.replaceAll(/[^\t\x20-\x7e]/g, ' ').slice(0, longestHead / 4)
  return { 'idempotency-key': value, traceparent: value, 'if-none-match': value }
}

function buffersOf(text: string): AsyncIterable<Buffer> {
  return ReadableStream.from(piecesOf(text).map((piece) => Buffer.from(piece)))
}

function streamOf(text: string): ReadableStream<Uint8Array> {
  return ReadableStream.from(piecesOf(text).map((piece) => Buffer.from(piece)))
}

function piecesOf(text: string): string[] {
  return Array.from({ length: Math.ceil(text.length / 4_001) }, (_, at) => text.slice(at * 4_001, (at + 1) * 4_001))
}

async function drained(values: AsyncIterable<unknown>): Promise<void> {
  for await (const value of values) if (value === undefined) return
}
