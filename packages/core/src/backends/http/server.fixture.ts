import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import type { HttpBinding, Json, JsonObject, Tool, ToolError } from '@gantry/contract'
import type { Egress } from '../../egress/egress.ts'
import { createEgressGuard } from '../../egress/guard.ts'
import type { EgressOptions } from '../../egress/options.ts'
import type { Backend, BackendContext } from '../backend.ts'
import { type HttpOptions, http } from '../http.ts'

/** A request that the server received. */
export interface Seen {
  readonly method: string
  /** Path and query of the request line, unchanged. */
  readonly target: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}

export type Answer = (request: Seen, response: ServerResponse, incoming: IncomingMessage) => void

/** A real server, a backend that calls it through a real guard, and the recorded requests. */
export interface World {
  readonly origin: string
  readonly seen: Seen[]
  readonly backend: Backend
  readonly egress: Egress
  /** Calls with a binding; `seen` records the request, and `chunks` the chunks of a streamed response. */
  call(binding: Omit<HttpBinding, 'kind'>, args?: JsonObject, context?: Partial<BackendContext>): Promise<Json>
  readonly chunks: Json[]
  close(): Promise<void>
}

export interface WorldOptions {
  readonly http?: Partial<HttpOptions>
  readonly egress?: EgressOptions
  readonly basePath?: string
}

export async function openWorld(answer: Answer, options: WorldOptions = {}): Promise<World> {
  const seen: Seen[] = []
  const chunks: Json[] = []
  const server = await listen((incoming, response) => {
    const parts: Buffer[] = []
    incoming.on('error', () => undefined)
    incoming.on('data', (part: Buffer) => parts.push(part))
    incoming.on('end', () => {
      const { method = '', url: target = '', headers, rawHeaders } = incoming
      const request = { method, target, headers, rawHeaders, body: Buffer.concat(parts) }
      seen.push(request)
      answer(request, response, incoming)
    })
  })
  const egress = createEgressGuard(options.egress)
  const baseUrl = `${server.origin}${options.basePath ?? ''}`
  const backend = http({ name: 'api', baseUrl, private: true, ...options.http })
  backend.attach?.(fakeHost(egress))
  return {
    origin: server.origin,
    seen,
    chunks,
    backend,
    egress,
    async call(binding, args = {}, context = {}) {
      const tool = toolWith({ kind: 'http', ...binding } as HttpBinding)
      const [first] = tool.backends
      const call = { id: 'test:tool:1.0.0', tool, args, binding: first ?? {} }
      return outputOf(backend.call(call, { ...fakeContext(), ...context }), chunks)
    },
    async close() {
      await egress.close()
      await server.close()
    },
  }
}

/** The output of a call; its chunks are added to the list. */
export async function outputOf(raw: unknown, chunks: Json[] = []): Promise<Json> {
  const value = (await raw) as Json | AsyncGenerator<Json, Json>
  if (typeof value !== 'object' || value === null || !(Symbol.asyncIterator in value)) return value as Json
  const generator = value as AsyncGenerator<Json, Json>
  for (let step = await generator.next(); ; step = await generator.next()) {
    if (step.done === true) return step.value
    chunks.push(step.value)
  }
}

export function toolWith(binding: HttpBinding, more: Partial<Tool> = {}): Tool {
  return {
    namespace: 'test',
    name: 'tool',
    version: '1.0.0',
    description: 'A tool.',
    inputSchema: { type: 'object' },
    effect: 'read',
    backends: [binding],
    ...more,
  }
}

export async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ readonly origin: string; close(): Promise<void> }> {
  const server = createServer(handle)
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

/** The error of a call; fails when the call succeeds. */
export async function failure(work: Promise<Json>): Promise<ToolError> {
  const outcome = await work.then(
    () => undefined,
    (error: ToolError) => error,
  )
  assert.ok(outcome !== undefined, 'it did not fail')
  return outcome
}
