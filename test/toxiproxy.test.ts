import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { startToxiproxy, type Toxiproxy } from '../scripts/engines/toxiproxy.ts'

async function toxiproxy(t: TestContext): Promise<Toxiproxy> {
  const started = await startToxiproxy().catch((error: Error) => {
    if (process.env.GANTRY_ENGINES !== 'required') t.skip(error.message)
    throw error
  })
  t.after(() => started.stop())
  return started
}

test('a proxied link applies each toxic, and works again after heal', async (t) => {
  const proxies = await toxiproxy(t)
  const server = createServer((_, answer) => answer.end('good'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const link = await proxies.proxy(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  const ask = async (ms: number): Promise<string> => {
    const headers = { connection: 'close' }
    const answer = fetch(`http://127.0.0.1:${link.port}/`, { headers, signal: AbortSignal.timeout(ms) })
    return answer.then(
      (good) => good.text(),
      (error: Error) => (error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.name,
    )
  }
  const ills = [
    [() => link.cut(), /TimeoutError/],
    [() => link.latency(60_000), /TimeoutError/],
    [() => link.refuse(), /ECONNREFUSED/],
    [() => link.reset(), /ECONNRESET|UND_ERR_SOCKET/],
    [() => link.slow(1_000), /good/],
  ] as const
  assert.equal(await ask(20_000), 'good')
  for (const [fallIll, outcome] of ills) {
    await fallIll()
    assert.match(await ask(outcome.source === 'TimeoutError' ? 300 : 20_000), outcome)
    await link.heal()
    assert.equal(await ask(20_000), 'good')
  }
  await link.close()
  assert.equal(await ask(20_000), 'ECONNREFUSED')
})
