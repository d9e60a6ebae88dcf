import { pipeline, type Readable, type Writable } from 'node:stream'
import { credentialsOf } from '@gantry/client'
import { isObject } from '@gantry/contract/internal/json'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/server'
import { messageCheck, messageLines, mostBufferBytes, mostLineBytes } from './message-lines.ts'
import { loadSdk } from './sdk.ts'

export interface BridgeOptions {
  /** Of the service, without a slash at its end. */
  readonly url: string
  readonly key?: string | undefined
  readonly input: Readable
  readonly output: Writable
  /** Receives diagnostics for the operator; they never go to the client. */
  readonly note: (text: string) => void
  readonly signal: AbortSignal
}

const versionMeta = 'io.modelcontextprotocol/protocolVersion'
const named: { readonly [method: string]: string } = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

type Id = string | number

/**
 * Forwards MCP transparently between a client over stdio and the endpoint of a service.
 * Every request gets a response under its own id, also when the service names no id or does not answer. A session that
 * the service has lost, because it restarted or the session was idle for too long, is reopened transparently: once for
 * all requests that found it gone, each of which is then sent once more. That is safe because the service processed none
 * of them. Resolves when the client has left or the signal aborts.
 */
export async function bridge({ url, key, input, output, note, signal }: BridgeOptions): Promise<void> {
  const [sdk, { StdioServerTransport }] = await Promise.all([loadSdk(), import('@modelcontextprotocol/server/stdio')])
  const lines = messageLines({
    refuse: (answer) => void stdio.send(answer as never).catch(() => undefined),
    isMessage: messageCheck(sdk),
  })
  const stdio = new StdioServerTransport(lines, output, { maxBufferSize: mostBufferBytes })
  const credentials = credentialsOf(key)
  const life = new AbortController()
  const running = new Map<Id, AbortController>()
  let session: string | undefined
  let opening: JSONRPCRequest | undefined
  let opened: Promise<unknown> = Promise.resolve()
  let reopening: Promise<void> | undefined

  const ask = async (message: JSONRPCMessage | undefined, method: string, stop: AbortSignal): Promise<Response> => {
    const body = message === undefined ? undefined : JSON.stringify(message)
    const headers: { readonly [name: string]: string } = {
      accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
      ...(message === undefined ? {} : { 'content-type': 'application/json', ...bodyHeaders(message) }),
      ...(session === undefined || isOpening(message) ? {} : { 'mcp-session-id': session }),
    }
    return fetch(`${url}/mcp`, {
      method,
      signal: stop,
      redirect: 'error',
      headers: { ...headers, ...(await credentials({ method, url: `${url}/mcp`, body, headers })) },
      ...(body === undefined ? {} : { body }),
    })
  }
  /** Delivers the response to a request, or the messages of a notification; throws when the request has no response. */
  const deliver = async (response: Response, id: Id | undefined): Promise<void> => {
    let answered = false
    for await (const message of messagesIn(response)) {
      const whole = id === undefined ? message : addressed(message, id)
      answered ||= isAnswer(whole) && whole.id === id
      await stdio.send(whole)
    }
    if (id !== undefined && !answered)
      throw new Error(`The service ended its response without an answer (HTTP ${response.status}).`)
  }
  /** Receives the notifications of the service; a stream that ends is not reopened. */
  const receive = async (): Promise<void> => {
    const response = await ask(undefined, 'GET', life.signal)
    if (response.ok) await deliver(response, undefined)
    else await response.body?.cancel()
  }
  const open = async (message: JSONRPCRequest, stop: AbortSignal): Promise<Response> => {
    opening = message
    const response = await ask(message, 'POST', stop)
    // A refused opening keeps the lost session, so that the next request tries again.
    if (response.ok) session = response.headers.get('mcp-session-id') ?? undefined
    return response
  }
  const openAgain = async (message: JSONRPCRequest): Promise<void> => {
    const response = await open(message, life.signal)
    if (!response.ok) throw new Error(await refusalIn(response))
    await response.body?.cancel()
    const notified = await ask({ jsonrpc: '2.0', method: 'notifications/initialized' }, 'POST', life.signal)
    await notified.body?.cancel()
    void receive().catch(() => undefined)
  }
  /** Resolves when a new session replaces the lost one; requests that arrive meanwhile wait for it. */
  const reopened = async (lost: string, message: JSONRPCRequest): Promise<void> => {
    if (session === lost) {
      reopening ??= openAgain(message).finally(() => {
        reopening = undefined
      })
    }
    await reopening
  }
  const post = async (message: JSONRPCMessage, stop: AbortSignal): Promise<Response> => {
    if (isOpening(message)) {
      const first = open(message, stop)
      opened = first.catch(() => undefined)
      return first
    }
    // Messages that a client sends before its session is open belong to that session.
    await opened
    await reopening
    const sentIn = session
    const response = await ask(message, 'POST', stop)
    if (response.status !== 404 || sentIn === undefined || opening === undefined || isModern(message)) return response
    await response.body?.cancel()
    await reopened(sentIn, opening)
    return ask(message, 'POST', stop)
  }
  const carry = async (message: JSONRPCMessage): Promise<void> => {
    const id = 'method' in message && 'id' in message ? message.id : undefined
    const own = new AbortController()
    if (id !== undefined) running.set(id, own)
    try {
      const response = await post(message, AbortSignal.any([life.signal, own.signal]))
      if (id === undefined && !response.ok) throw new Error(await refusalIn(response))
      await deliver(response, id)
      if ('method' in message && message.method === 'notifications/initialized') void receive().catch(() => undefined)
    } catch (error) {
      if (life.signal.aborted || own.signal.aborted) return
      const text = error instanceof Error ? error.message : 'The service does not answer.'
      note(`The request to the service at ${url} failed: ${text}`)
      // A cancelled request has no waiter.
      if (id === undefined || running.get(id) !== own) return
      await stdio.send({ jsonrpc: '2.0', id, error: { code: -32_000, message: text } })
    } finally {
      if (id !== undefined && running.get(id) === own) running.delete(id)
    }
  }
  const take = (message: JSONRPCMessage): void => {
    const gone = cancelledId(message)
    // A client of 2026-07-28 cancels over HTTP by closing the connection, so the bridge closes it.
    if (gone !== undefined && (isModern(message) || session === undefined)) running.get(gone)?.abort()
    else {
      if (gone !== undefined) running.delete(gone)
      carry(message).catch((error: unknown) => note(String(error)))
    }
  }
  await new Promise<void>((resolve) => {
    stdio.onclose = resolve
    stdio.onerror = (error) => note(error.message)
    stdio.onmessage = take
    pipeline(input, lines, () => undefined)
    void stdio.start()
    onAbort(signal, () => void stdio.close())
  })
  life.abort()
  lines.destroy()
  if (session !== undefined) await ask(undefined, 'DELETE', AbortSignal.timeout(2_000)).catch(() => undefined)
}

/** The messages of a response, as JSON or as an event stream; throws the error of a response that is not JSON-RPC. */
async function* messagesIn(response: Response): AsyncGenerator<JSONRPCMessage, void> {
  const type = response.headers.get('content-type') ?? ''
  if (type.startsWith('text/event-stream') && response.body !== null) {
    for await (const data of sseData(response.body, mostLineBytes)) yield JSON.parse(data)
  } else if (type.startsWith('application/json')) {
    const body: JSONRPCMessage & Refusal = JSON.parse(await response.text())
    if (body.jsonrpc !== '2.0') throw new Error(textOf(body, response))
    yield body
  } else await response.body?.cancel()
}

interface Refusal {
  readonly error?: { readonly message?: string }
}

async function refusalIn(response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => undefined)
  const error = isObject(body) ? body.error : undefined
  return textOf(
    { error: isObject(error) && typeof error.message === 'string' ? { message: error.message } : {} },
    response,
  )
}

function textOf({ error }: Refusal, { status }: Response): string {
  return error?.message ?? `The service answered ${status}.`
}

/** A response without an id, with the id of the request. */
function addressed(message: JSONRPCMessage, id: Id): JSONRPCMessage {
  return isAnswer(message) && (message.id ?? null) === null ? ({ ...message, id } as JSONRPCMessage) : message
}

function isAnswer(message: JSONRPCMessage): message is Exclude<JSONRPCMessage, { readonly method: string }> {
  return !('method' in message)
}

function isOpening(message: JSONRPCMessage | undefined): message is JSONRPCRequest {
  return message !== undefined && 'method' in message && 'id' in message && message.method === 'initialize'
}

function paramsOf(message: JSONRPCMessage): { readonly [name: string]: unknown } {
  return 'params' in message && isObject(message.params) ? message.params : {}
}

function metaOf(message: JSONRPCMessage): { readonly [name: string]: unknown } {
  const meta = paramsOf(message)._meta
  return isObject(meta) ? meta : {}
}

function isModern(message: JSONRPCMessage): boolean {
  return typeof metaOf(message)[versionMeta] === 'string'
}

function cancelledId(message: JSONRPCMessage): Id | undefined {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined
  const { requestId } = paramsOf(message)
  return typeof requestId === 'string' || typeof requestId === 'number' ? requestId : undefined
}

/** The headers that 2026-07-28 requires with the body. */
function bodyHeaders(message: JSONRPCMessage): { readonly [name: string]: string } {
  const version = metaOf(message)[versionMeta]
  if (typeof version !== 'string' || !('method' in message)) return {}
  const member = named[message.method]
  const name = member === undefined ? undefined : paramsOf(message)[member]
  return {
    'mcp-protocol-version': version,
    'mcp-method': message.method,
    ...(typeof name === 'string' ? { 'mcp-name': headerText(name) } : {}),
  }
}

/** A header value: the text unchanged, or in the encoding of MCP for text that a header cannot hold. */
function headerText(text: string): string {
  const plain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)
  return plain ? text : `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}

/**
 * The data of the events in a stream, as they arrive. An event longer than `most` characters ends it with an error:
 * the sender is then not an MCP service.
 */
export async function* sseData(body: ReadableStream<Uint8Array>, most: number): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  /** Chunks of the unfinished line, joined only at its end, because an event may arrive byte by byte. */
  let open: string[] = []
  let data: string[] = []
  let size = 0
  for await (const piece of body) {
    const [first = '', ...lines] = decoder.decode(piece, { stream: true }).split('\n')
    open.push(first)
    size += first.length
    for (const next of lines) {
      const line = open.join('').replace(/\r$/, '')
      open = [next]
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
      if (line !== '') {
        size += next.length
        continue
      }
      const event = data.join('\n')
      data = []
      size = next.length
      if (event !== '') yield event
    }
    if (size > most) throw new Error('An event of the service is over the size limit.')
  }
}
