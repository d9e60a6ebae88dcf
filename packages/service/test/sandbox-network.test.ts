import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { noBubblewrap } from '../../conformance/src/sandbox-test.ts'
import { testCertificate, testKey } from '../../core/src/egress/egress.fixture.ts'
import { createSearch, readTree } from './canary-search.fixture.ts'
import { migratedFolder, serviceFolder, startServe } from './serve.fixture.ts'
import { gantry } from './spawn.fixture.ts'

const skip = noBubblewrap === undefined ? {} : { skip: noBubblewrap }
const secret = `canary-${crypto.randomUUID()}`
const cache = mkdtempSync(join(tmpdir(), 'gantry-cache-'))
after(() => rmSync(cache, { recursive: true, force: true }))

async function server(t: TestContext) {
  const heard: IncomingHttpHeaders[] = []
  const made = createServer({ key: testKey, cert: testCertificate }, (request, response) => {
    heard.push(request.headers)
    response.end(JSON.stringify(request.headers))
  })
  await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    made.closeAllConnections()
    made.close()
  })
  return { heard, origin: `https://127.0.0.1:${(made.address() as AddressInfo).port}` }
}

/** A configuration whose egress rules allow three servers, of which programs of callers may reach the first two. */
function configOf(mine: string, other: string, hidden: string): string {
  const own = {
    namespace: 'own',
    name: 'who',
    description: 'Asks who we are.',
    inputSchema: { type: 'object' },
    egress: [mine],
    backends: [
      {
        kind: 'sandboxed',
        script: `curl -sS -H "X-Key: $KEY" ${mine}/`,
        output: 'json',
        credentials: { KEY: { secret: 'API', hosts: [mine] } },
      },
    ],
  }
  return JSON.stringify({
    egress: { allow: [mine, other, hidden].map((origin) => ({ origin, private: true })), ca: testCertificate },
    secrets: { API: { env: 'API_SECRET' } },
    sandboxNetwork: { allow: [mine, other], credentials: { TOKEN: { secret: 'API', hosts: [mine] } } },
    tools: [own],
  })
}

const asking = (origin: string): string => `curl -sSk -H "Authorization: Bearer $TOKEN" ${origin}/`

test('gantry run replaces placeholders by secrets for the configured hosts only', skip, async (t) => {
  const [mine, other, hidden] = [await server(t), await server(t), await server(t)]
  const folder = serviceFolder(t)
  writeFileSync(join(folder, 'gantry.config.json'), configOf(mine.origin, other.origin, hidden.origin))
  const run = async (tool: string, args: object) => {
    const environment = { API_SECRET: secret }
    const ended = await gantry(['run', tool, JSON.stringify(args), '--json'], { folder, cache, environment })
    assert.ok(!`${ended.out}${ended.err}`.includes(secret))
    return JSON.parse(ended.out)
  }
  const own = await run('own:who', {})
  assert.match(own.output['x-key'], /^gantry-placeholder-/)
  assert.equal(mine.heard[0]?.['x-key'], secret)

  const network = { allow: [mine.origin, other.origin] }
  const shell = await run('shell:run', {
    script: `${asking(mine.origin)}; ${asking(other.origin)}`,
    network,
    grants: ['TOKEN'],
  })
  assert.equal(shell.status, 'ok', JSON.stringify(shell))
  assert.equal(mine.heard[1]?.authorization, `Bearer ${secret}`)
  assert.match(other.heard[0]?.authorization ?? '', /^Bearer gantry-placeholder-/)

  const beyond = await run('shell:run', { script: asking(hidden.origin), network: { allow: [hidden.origin] } })
  assert.equal(beyond.error.code, 'EGRESS_DENIED')
  assert.equal(hidden.heard.length, 0)
})

test(
  'gantry serve replaces placeholders too, and no response, metric, log or file of it holds the secret',
  skip,
  async (t) => {
    const [mine, other, hidden] = [await server(t), await server(t), await server(t)]
    const folder = await migratedFolder(t)
    writeFileSync(join(folder, 'gantry.config.json'), configOf(mine.origin, other.origin, hidden.origin))
    const served = startServe(t, folder, { environment: { API_SECRET: secret } })
    const run = async (tool: string, args: object) => (await served.post('/v1/calls', { tool, args })).value
    const network = { allow: [mine.origin, other.origin] }
    const args = {
      language: 'bash',
      code: `${asking(mine.origin)}; ${asking(other.origin)}`,
      network,
      grants: ['TOKEN'],
    }
    const ran = await run('code:run', args)
    assert.equal(ran.status, 'ok', JSON.stringify(ran))
    await run('own:who', {})
    assert.deepEqual([mine.heard[0]?.authorization, mine.heard[1]?.['x-key']], [`Bearer ${secret}`, secret])
    assert.match(other.heard[0]?.authorization ?? '', /^Bearer gantry-placeholder-/)
    const beyond = await run('code:run', {
      language: 'bash',
      code: asking(hidden.origin),
      network: { allow: [hidden.origin] },
    })
    assert.equal(beyond.error?.code, 'EGRESS_DENIED', JSON.stringify(beyond))
    assert.equal(hidden.heard.length, 0)

    // 80: the calls, metrics, logs and every file of the service.
    const { value: listed } = await served.get('/v1/calls')
    const metrics = await (await served.ask('/metrics')).text()
    await served.stop()
    const { find } = createSearch({ secret })
    assert.deepEqual(find(JSON.stringify([ran, listed, metrics, served.printed])), [])
    const files = readTree(join(folder, '.gantry'), [])
    assert.ok(files.length > 10)
    assert.deepEqual(
      files.flatMap(({ path, bytes }) => (find(bytes).length > 0 ? [path] : [])),
      [],
    )
    assert.ok(find(`Bearer ${secret}`).length > 0)
  },
)

test('gantry config check rejects an invalid sandboxNetwork with the failing paths', async (t) => {
  const folder = serviceFolder(t)
  const sandboxNetwork = { alow: [], credentials: { TOKEN: { secret: 'API', hosts: ['api.example.com'] } } }
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify({ sandboxNetwork }))
  const { code, err, out } = await gantry(['config', 'check'], { folder, cache })
  assert.notEqual(code, 0)
  assert.match(`${err}${out}`, /\/sandboxNetwork\/alow/)
  assert.match(`${err}${out}`, /\/sandboxNetwork\/credentials\/TOKEN\/hosts\/0/)
})
