import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openFirecrackerApi } from './firecracker-api.ts'

const signal = AbortSignal.timeout(30_000)

async function withServer(listener: RequestListener, use: (socket: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-api-'))
  const server = createServer(listener)
  const socket = join(folder, 'api')
  await once(server.listen(socket), 'listening')
  try {
    await use(socket)
  } finally {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
  }
}

test('the API of Firecracker is asked by method, path and JSON, and its faults are given, cut', async () => {
  const asked: unknown[] = []
  const listener: RequestListener = async (message, response) => {
    let text = ''
    for await (const piece of message) text += String(piece)
    asked.push([message.method, message.url, text])
    if (message.method === 'PATCH') response.writeHead(400).end(JSON.stringify({ fault_message: 'x'.repeat(1_000) }))
    else response.writeHead(204).end()
  }
  await withServer(listener, async (socket) => {
    const api = await openFirecrackerApi(socket, signal)
    await api.put('/vsock', { guest_cid: 3 })
    await assert.rejects(api.patch('/vm', { state: 'Paused' }), {
      code: 'SANDBOX_INIT_FAILED',
      message: `Firecracker refused PATCH /vm: ${'x'.repeat(300)}`,
    })
  })
  assert.deepEqual(asked, [
    ['GET', '/', ''],
    ['PUT', '/vsock', '{"guest_cid":3}'],
    ['PATCH', '/vm', '{"state":"Paused"}'],
  ])
})

test('an answer of Firecracker that is too long, no JSON, or cut off rejects', async () => {
  const cases: readonly (readonly [RequestListener, RegExp])[] = [
    [(_, response) => void response.writeHead(400).end('x'.repeat(100_000)), /did not answer PUT \/entropy/],
    [(_, response) => void response.writeHead(500).end('<html>'), /refused PUT \/entropy: status 500, without a fault/],
    [({ socket }) => void socket.destroy(), /did not answer PUT \/entropy/],
  ]
  for (const [fail, message] of cases) {
    const listener: RequestListener = (request, response) => {
      if (request.method === 'GET') response.end('{}')
      else fail(request, response)
    }
    await withServer(listener, async (socket) => {
      const api = await openFirecrackerApi(socket, signal)
      await assert.rejects(api.put('/entropy', {}), { code: 'SANDBOX_INIT_FAILED', message })
    })
  }
})

test('waiting for a socket that does not come ends with its signal', async () => {
  const ending = AbortSignal.timeout(50)
  await assert.rejects(openFirecrackerApi(join(tmpdir(), 'nowhere', 'api'), ending))
  assert.ok(ending.aborted)
})
