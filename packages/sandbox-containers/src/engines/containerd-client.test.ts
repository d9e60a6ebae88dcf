import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import { fromJSON } from '@grpc/proto-loader'
import { apiDescriptor } from './containerd-api.ts'
import { type ContainerdClient, ContainerdError, createContainerdClient } from './containerd-client.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-containerd-client-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const { signal } = new AbortController()

type Handler = (
  call: { readonly metadata: { get(key: string): unknown[] } },
  answer: (...args: unknown[]) => void,
) => void

/** A server of the version service, which answers by `handler`, and a client of it. */
async function withServer(
  handler: Handler,
  work: (client: ContainerdClient, server: Server) => Promise<void>,
): Promise<void> {
  const definitions = fromJSON(apiDescriptor()) as { readonly [name: string]: Parameters<Server['addService']>[0] }
  const service = definitions['containerd.services.version.v1.Version']
  assert.ok(service)
  const server = new Server()
  server.addService(service, { Version: handler as never })
  const socket = join(folder, `${Math.random().toString(36).slice(2)}.sock`)
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${socket}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    )
  })
  const client = await createContainerdClient({ socket, namespace: 'own' })
  try {
    await work(client, server)
  } finally {
    client.close()
    server.forceShutdown()
  }
}

const ask = (client: ContainerdClient, options: { readonly waitMs?: number; readonly signal?: AbortSignal } = {}) =>
  client.call('version.v1.Version/Version', {}, { signal, ...options })

test('a request carries the namespace, and the answer is read', async () => {
  const handler: Handler = ({ metadata }, answer) =>
    answer(null, { version: String(metadata.get('containerd-namespace')) })
  await withServer(handler, async (client) => {
    assert.equal((await ask(client)).version, 'own')
  })
})

test('the end of a connection is seen while nothing is requested', async () => {
  await withServer(
    (_, answer) => answer(null, { version: '1' }),
    async (client, server) => {
      let isLost = false
      const lost = client.lost.then(() => {
        isLost = true
      })
      await ask(client)
      assert.equal(isLost, false)
      server.forceShutdown()
      await lost
    },
  )
})

test('an answer that says no is a ContainerdError of its kind, in one line', async () => {
  const kinds = [
    [status.NOT_FOUND, 'absent'],
    [status.ALREADY_EXISTS, 'exists'],
    [status.FAILED_PRECONDITION, 'precondition'],
    [status.UNKNOWN, 'other'],
  ] as const
  for (const [code, kind] of kinds) {
    const handler: Handler = (_, answer) => answer({ code, details: 'it\nsays\u0007 no' })
    await withServer(handler, async (client) => {
      await assert.rejects(ask(client), (error) => {
        assert.ok(error instanceof ContainerdError)
        assert.deepEqual([error.kind, error.message], [kind, 'it says no'])
        return true
      })
    })
  }
})

test('a server that does not answer is RUNTIME_UNAVAILABLE with a remedy, and an aborted request rejects with its reason', async () => {
  await withServer(
    () => undefined,
    async (client) => {
      await assert.rejects(ask(client, { waitMs: 100 }), (error) => {
        assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE')
        assert.match(error.message, /did not answer within 0\.1 s\. Look at the log of containerd/)
        return true
      })
      const stopping = new AbortController()
      const asked = ask(client, { signal: stopping.signal })
      stopping.abort(new Error('enough'))
      await assert.rejects(asked, { message: 'enough' })
      await assert.rejects(ask(client, { signal: stopping.signal }), { message: 'enough' })
    },
  )
})

test('no socket, and a socket behind which there is no containerd, are RUNTIME_UNAVAILABLE with a remedy', async () => {
  const socket = join(folder, 'other.sock')
  const server = createServer((connection) => connection.destroy()).listen(socket)
  await once(server, 'listening')
  const web = join(folder, 'web.sock')
  const engine = createServer((connection) => connection.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(web)
  await once(engine, 'listening')
  try {
    for (const [path, reason] of [
      [join(folder, 'absent.sock'), /is unreachable \(ENOENT\)\. Start containerd, or name its socket/],
      [socket, /is unreachable\. Look at the log/],
      [web, /is no containerd\. Name the socket of containerd in `runtimes\.containerd\.socket`/],
    ] as const) {
      const client = await createContainerdClient({ socket: path, namespace: 'own' })
      await assert.rejects(ask(client), (error) => {
        assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE')
        assert.match(error.message, reason)
        return true
      })
      client.close()
    }
  } finally {
    server.close()
    engine.close()
  }
})
