import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { sseData } from '@gantry/mcp/internal/server/bridge'
import { type Rig, startRig } from '../http/http.fixture.ts'
import type { HttpOptions } from '../http/server.ts'
import { type FakeService, fakeService } from '../http/service.fixture.ts'
import { createMcpHttpHandler, type McpHttpOptions, serviceHost } from './http-handler.ts'

export interface Answered {
  readonly jsonrpc: string
  readonly id?: unknown
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the tests are about.
  readonly result?: any
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
  readonly method?: string
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly params?: any
}

/** How a request differs from a plain one of the owner. */
export interface Asking {
  readonly key?: string
  readonly headers?: { readonly [name: string]: string }
  /** In addition to what every request of 2026-07-28 has. */
  readonly meta?: object
  readonly signal?: AbortSignal
}

export interface McpRig extends Rig {
  /** Sends one request of 2026-07-28; resolves with all messages of the response, the answer last. */
  modern(method: string, params?: object, asking?: Asking): Promise<{ response: Response; messages: Answered[] }>
  call(name: string, args?: object, asking?: Asking): Promise<Answered>
  /** Opens a session of 2025-11-25. */
  session(key?: string): Promise<McpSession>
}

export interface McpSession {
  readonly id: string
  send(message: object, asking?: Asking): Promise<{ response: Response; messages: Answered[] }>
  request(method: string, params?: object, asking?: Asking): Promise<Answered>
}

export const accept = 'application/json, text/event-stream'
export const revision = '2026-07-28'
export const envelope = {
  'io.modelcontextprotocol/protocolVersion': revision,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** A server with an MCP endpoint over a fake service, closed when the test ends. */
export async function openMcp(
  t: TestContext,
  options: Partial<McpHttpOptions> = {},
  service: FakeService = fakeService(),
  http: Partial<HttpOptions> = {},
): Promise<McpRig> {
  const leaving = new AbortController()
  const host = serviceHost(service, leaving.signal)
  const handler = await createMcpHttpHandler({ host, version: '1.0.0', resource: { issuers: () => [] }, ...options })
  t.after(async () => {
    leaving.abort()
    await handler.close()
  })
  const rig = await startRig(t, { mounts: handler.mounts, ...http }, service)
  let last = 0
  const post = (body: object, { key = rig.key, headers, signal }: Asking = {}): Promise<Response> =>
    fetch(`${rig.server.url}/mcp`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { accept, 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      ...(signal === undefined ? {} : { signal }),
    })
  const modern: McpRig['modern'] = async (method, params = {}, asking = {}) => {
    last += 1
    const { name } = params as { readonly name?: string; readonly taskId?: string; readonly uri?: string }
    const named = name ?? (params as { taskId?: string }).taskId ?? (params as { uri?: string }).uri
    const headers = {
      'mcp-protocol-version': revision,
      'mcp-method': method,
      ...(named === undefined ? {} : { 'mcp-name': named }),
      ...asking.headers,
    }
    const _meta = { ...envelope, ...asking.meta }
    const body = { jsonrpc: '2.0', id: last, method, params: { ...params, _meta } }
    const response = await post(body, { ...asking, headers })
    return { response, messages: await messagesOf(response) }
  }
  const session: McpRig['session'] = async (key = rig.key) => {
    const params = { protocolVersion: '2025-11-25', clientInfo: { name: 'test', version: '1' }, capabilities: {} }
    const opened = await post({ jsonrpc: '2.0', id: 'open', method: 'initialize', params }, { key })
    const id = opened.headers.get('mcp-session-id') ?? ''
    assert.equal(opened.status, 200)
    await messagesOf(opened)
    const send: McpSession['send'] = async (message, asking = {}) => {
      const headers = { 'mcp-session-id': id, 'mcp-protocol-version': '2025-11-25', ...asking.headers }
      const response = await post({ jsonrpc: '2.0', ...message }, { key, ...asking, headers })
      return { response, messages: await messagesOf(response) }
    }
    await send({ method: 'notifications/initialized' })
    return {
      id,
      send,
      async request(method, asked = {}, asking = {}) {
        last += 1
        return ended((await send({ id: last, method, params: asked }, asking)).messages)
      },
    }
  }
  return {
    ...rig,
    modern,
    session,
    call: async (name, args = {}, asking = {}) =>
      ended((await modern('tools/call', { name, arguments: args }, asking)).messages),
  }
}

function ended(messages: readonly Answered[]): Answered {
  const last = messages.at(-1)
  assert.ok(last !== undefined, 'the response has no message')
  return last
}

/** Every message of a response, in either of its two forms. */
export async function messagesOf(response: Response): Promise<Answered[]> {
  const type = response.headers.get('content-type') ?? ''
  if (type.startsWith('application/json')) return [(await response.json()) as Answered]
  if (!type.startsWith('text/event-stream') || response.body === null) return []
  const messages: Answered[] = []
  for await (const data of sseData(response.body, 10_000_000)) messages.push(JSON.parse(data) as Answered)
  return messages
}
