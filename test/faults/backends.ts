import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault.ts'
import { pooled } from './load.ts'
import { openSite } from './site.ts'

/** Configuration of a tool behind another HTTP service. */
function behind(port: number): string {
  const origin = `http://127.0.0.1:${port}`
  return `
  backends: [{ kind: 'http', name: 'shop', baseUrl: '${origin}' }],
  egress: { allow: [{ origin: '${origin}', private: true }] },
  tools: [...tools, {
    tool: { namespace: 'fault', name: 'far', version: '1.0.0', description: 'Asks elsewhere.', effect: 'read',
      inputSchema: { type: 'object' }, retry: { attempts: 4, delayMs: 20 }, onCircuitOpen: 'wait',
      backends: [{ kind: 'http', name: 'shop', path: '/far' }] },
    run: undefined, input: undefined, output: undefined, lookup: undefined,
  }],`
}

const retryStorm: Fault = {
  number: 36,
  name: 'a backend that is down gets at most one request for each call, and no call is lost',
  async run(t, size) {
    const calls = size === 'quick' ? 200 : 1_000
    let asked = 0
    let up = false
    const server = createServer((_request, response) => {
      asked += 1
      response.writeHead(up ? 200 : 503, { 'content-type': 'application/json' }).end('{"there":true}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const { port } = server.address() as AddressInfo
    const site = await openSite(t, { engine: 'postgres', config: behind(port) })
    const node = await site.start()
    const client = site.clientOf(node)
    const accepted = await pooled(Array.from({ length: calls }), 20, (_, n = Math.random()) =>
      client.submit('fault:far', { n }),
    )
    await sleep(size === 'quick' ? 3_000 : 20_000)
    const whileDown = asked
    up = true
    const ends = new Map<string, number>()
    await pooled(accepted, 20, async ({ callId }) => {
      for (;;) {
        const { result } = await client.get(callId)
        if (result !== undefined) {
          const end = `${result.status} ${result.error?.code ?? ''}`
          return void ends.set(end, (ends.get(end) ?? 0) + 1)
        }
        await sleep(200)
      }
    })
    const outcomes = JSON.stringify(Object.fromEntries(ends))
    t.diagnostic(`${calls} calls, ${whileDown} requests while the backend was down, ${asked} in all: ${outcomes}`)
    assert.ok(whileDown > 0 && whileDown <= 1.1 * calls, `${whileDown} requests for ${calls} calls`)
    assert.ok((ends.get('ok ') ?? 0) > 0.5 * calls, `most calls should have waited for the backend: ${outcomes}`)
    await site.sound('retry storm')
  },
}

export const backendFaults: readonly Fault[] = [retryStorm]
