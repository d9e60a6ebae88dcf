import assert from 'node:assert/strict'
import { get } from 'node:http'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { serveMetrics } from './metrics-server.ts'

const service = {
  metrics: async (scope?: string) => ({ type: 'text/plain', text: `scope ${scope}\n` }),
  ready: async () => ({ ready: true, problems: [] }),
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

function asked(port: number, headers: { readonly [name: string]: string }): Promise<[status: number, text: string]> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path: '/metrics', headers, agent: false }, async (response) => {
      let text = ''
      for await (const piece of response) text += piece
      resolve([response.statusCode ?? 0, text])
    })
    request.on('error', reject)
  })
}

test('the metrics port answers to local and configured host names, and to no page', async (t) => {
  const port = await freePort()
  t.after(await serveMetrics({ host: '127.0.0.1', port, hosts: ['gantry.example'] }, service))
  for (const host of [`127.0.0.1:${port}`, 'localhost', 'gantry.example'])
    assert.deepEqual(await asked(port, { host }), [200, 'scope whole\n'], host)
  for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example']) {
    const [status, text] = await asked(port, { host })
    assert.equal(status, 403, host)
    assert.doesNotMatch(text, /scope/)
  }
  const [status] = await asked(port, { host: 'localhost', origin: 'http://evil.example' })
  assert.equal(status, 403)
})

test('the metrics port limits the connections of an address and their age, and still answers', async (t) => {
  const port = await freePort()
  const limits = {
    connections: 4,
    connectionsPerAddress: 2,
    sharedAddresses: [],
    unauthenticatedMs: 100,
    waitingPerTenant: 0,
    waitingPerPrincipal: 0,
  }
  t.after(await serveMetrics({ host: '127.0.0.1', port, hosts: [] }, service, limits))
  const sockets = Array.from({ length: 6 }, () => connect(port, '127.0.0.1').on('error', () => undefined))
  const closed = sockets.map((socket) => new Promise<void>((resolve) => socket.once('close', () => resolve())))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  await Promise.all(closed.slice(0, 4))
  assert.deepEqual(await asked(port, { host: 'localhost' }), [200, 'scope whole\n'])
  await Promise.all(closed)
})
