import assert from 'node:assert/strict'
import { get } from 'node:http'
import { createServer } from 'node:net'
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

test('the port of the metrics answers to names of this machine and to configured ones, and to no page', async (t) => {
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
