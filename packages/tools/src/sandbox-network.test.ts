import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import type { Identity, JsonObject } from '@gantry/contract'
import { memoryAudit } from '@gantry/core/internal/audits/memory'
import type { SecretSource } from '@gantry/core/internal/secrets/secret'
import { defineTool } from '@gantry/core/internal/tools/tool'
import { createExecutor } from '@gantry/tools'
import { testCertificate } from '../../core/src/egress/egress.fixture.ts'
import { echo, recordingServer } from '../../sandbox/src/drivers/process-broker.fixture.ts'
import { builtinTools } from './builtin.ts'
import type { SandboxNetworkOptions } from './sandbox.ts'

const skip = noBubblewrap === undefined ? {} : { skip: noBubblewrap }
/** Each tenant has its own. */
const secretOf = (tenant: string): string => `canary-${tenant}-8f2b61c94d`
const secrets: SecretSource = {
  get: (name, { identity }) => ({ github: secretOf(identity.tenant), bad: 'line\r\nbreak', short: 'seven77' })[name],
}
const of = (tenant: string): Identity => ({ principal: 'ada', tenant, permissions: ['*'] })

async function setUp(t: TestContext, options: (origin: string, other: string) => SandboxNetworkOptions) {
  const [mine, other] = [await recordingServer(echo), await recordingServer(echo)]
  const allow = [mine, other].map(({ origin }) => ({ origin, private: true }))
  const seen: unknown[] = []
  const audit = memoryAudit()
  const tools = builtinTools({ sandboxNetwork: options(mine.origin, other.origin) })
  const egress = { allow, ca: testCertificate }
  const gantry = createExecutor({ tools, secrets, egress, audit, runtimes: { pool: false } })
  for (const event of ['call:started', 'call:reported', 'call:finished', 'egress:attempted'] as const) {
    gantry.on(event, (data) => void seen.push(data))
  }
  t.after(async () => {
    await gantry.close()
    mine.close()
    other.close()
  })
  const curl = (origin: string): string => `curl -sSk -H "Authorization: Bearer $TOKEN" ${origin}/`
  const run = (args: JsonObject, tenant = 'red', tool = 'shell:run') => gantry.run(tool, args, { identity: of(tenant) })
  return { gantry, mine, other, audit, seen, run, curl }
}

const granting = (origin: string): SandboxNetworkOptions => ({
  credentials: { TOKEN: { secret: 'github', hosts: [origin] }, BAD: { secret: 'bad', hosts: [origin] } },
})

test('a call that requests a granted credential sends the secret of its own tenant', skip, async (t) => {
  const { mine, other, run, curl, audit, seen, gantry } = await setUp(t, granting)
  const network = { allow: [mine.origin, other.origin] }
  for (const tenant of ['red', 'blue']) {
    const result = await run({ script: curl(mine.origin), network, grants: ['TOKEN'] }, tenant)
    assert.equal(result.status, 'ok', result.error?.message)
    assert.match(String((result.output as JsonObject).stdout), /Bearer gantry-placeholder-/)
    assert.equal(mine.requests.at(-1)?.headers.authorization, `Bearer ${secretOf(tenant)}`)
  }
  await run({ script: curl(other.origin), network, grants: ['TOKEN'] })
  assert.match(other.requests.at(-1)?.headers.authorization ?? '', /^Bearer gantry-placeholder-/)

  // A call that does not name it has neither the variable nor the broker: an end-to-end tunnel.
  const without = await run({ script: `echo "[$TOKEN]"; ${curl(mine.origin)}`, network })
  assert.match(String((without.output as JsonObject).stdout), /^\[\]\n/)
  assert.equal(mine.requests.at(-1)?.headers.authorization, 'Bearer')

  // 80: no event, log or record of these calls holds a secret.
  const records = JSON.stringify([audit.records, seen, await gantry.describe('shell:run', { level: 'full' })])
  assert.ok(records.includes('TOKEN') && records.includes(mine.origin))
  assert.ok(!records.includes('canary-'), records)
})

test('no argument selects a secret of another name, another host or another tool', skip, async (t) => {
  const { mine, other, run, curl } = await setUp(t, (origin) => ({
    credentials: {
      TOKEN: { secret: 'github', hosts: [origin], tools: ['shell:run'] },
      BAD: { secret: 'bad', hosts: [origin] },
      SHORT: { secret: 'short', hosts: [origin] },
    },
  }))
  const network = { allow: [mine.origin, other.origin] }
  const script = curl(mine.origin)
  const code = async (args: JsonObject, tool?: string): Promise<unknown> => (await run(args, 'red', tool)).error?.code
  assert.equal(await code({ script, network, grants: ['github'] }), 'INPUT_INVALID')
  assert.equal(await code({ script, network, grants: ['constructor'] }), 'INPUT_INVALID')
  assert.equal(await code({ script, network, grants: 'TOKEN' }), 'INPUT_INVALID')
  assert.equal(
    await code({ script, network, credentials: { A: { secret: 'github', hosts: [other.origin] } } }),
    'INPUT_INVALID',
  )
  assert.equal(await code({ script, grants: ['TOKEN'] }), 'INPUT_INVALID')
  assert.equal(await code({ script, network: { allow: [other.origin] }, grants: ['TOKEN'] }), 'INPUT_INVALID')
  assert.equal(await code({ language: 'bash', code: script, network, grants: ['TOKEN'] }, 'code:run'), 'INPUT_INVALID')
  assert.equal(await code({ script, network, grants: ['BAD'] }), 'SECRET_UNAVAILABLE')
  assert.equal(await code({ script, network, grants: ['SHORT'] }), 'SECRET_UNAVAILABLE')
  assert.equal(mine.requests.length, 0)
  assert.equal(await code({ script, network, grants: ['TOKEN'] }), undefined)
  assert.equal(mine.requests.length, 1)
})

test('every run of a session has the credentials granted at its opening', skip, async (t) => {
  const { mine, run } = await setUp(t, granting)
  const network = { allow: [mine.origin] }
  const opened = await run({ action: 'open', language: 'python', network, grants: ['TOKEN'] }, 'red', 'code:session')
  assert.equal(opened.status, 'ok', opened.error?.message)
  const { session } = opened.output as JsonObject
  const code = `import os, urllib.request
headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
print(urllib.request.urlopen(urllib.request.Request("${mine.origin}/", headers=headers)).read().decode())`
  for (const _ of [1, 2]) {
    const ran = await run({ action: 'run', session: session ?? '', code }, 'red', 'code:session')
    assert.match(String((ran.output as JsonObject).stdout), /gantry-placeholder/, JSON.stringify(ran.output))
    assert.equal(mine.requests.pop()?.headers.authorization, `Bearer ${secretOf('red')}`)
  }
  await run({ action: 'close', session: session ?? '' }, 'red', 'code:session')
})

test('`allow` of the tool limits programs to less than the egress rules of the executor', skip, async (t) => {
  const { mine, other, run, curl } = await setUp(t, (origin) => ({ allow: [origin] }))
  const asked = (origin: string) => run({ script: curl(origin), network: { allow: [origin] } })
  assert.equal((await asked(mine.origin)).status, 'ok')
  assert.deepEqual([mine.requests.length, other.requests.length], [1, 0])
  const refused = (await asked(other.origin)).error
  assert.equal(refused?.code, 'EGRESS_DENIED')
  assert.ok(refused.message.endsWith(`Add "${other.origin}" to sandboxNetwork.allow.`), refused.message)
  assert.equal((await asked('https://*.example.com')).error?.code, 'EGRESS_DENIED')
  assert.equal(other.requests.length, 0)
})

test('a tool that is a program gets its credentials from its binding', skip, async (t) => {
  const { gantry, mine } = await setUp(t, () => ({}))
  const binding = (more: JsonObject) => ({ kind: 'sandboxed', script: 'cat; curl -sS -H "X-Key: $KEY" $URL', ...more })
  const credentials = { KEY: { secret: 'github', hosts: [mine.origin] } }
  const define = (name: string, backend: JsonObject, egress = [mine.origin]) =>
    defineTool({
      namespace: 'own',
      name,
      description: name,
      inputSchema: { type: 'object' },
      egress,
      backends: [binding({ env: { URL: mine.origin }, ...backend })],
    })
  gantry.register(define('good', { credentials }))
  const result = await gantry.run('own:good', { KEY: 'x', grants: ['KEY'] }, { identity: of('red') })
  assert.equal(result.status, 'ok', result.error?.message)
  assert.equal(mine.requests[0]?.headers['x-key'], secretOf('red'))

  const wrong: readonly (readonly [JsonObject, RegExp, string[]?])[] = [
    [{ credentials: { KEY: { secret: 'github', hosts: [] } } }, /\/credentials\/KEY\/hosts/],
    [{ credentials: { KEY: { secret: 'github', hosts: ['example.com'] } } }, /\/credentials\/KEY\/hosts\/0/],
    [{ credentials: { KEY: { hosts: [mine.origin] } } }, /\/credentials\/KEY\/secret/],
    [{ credentials: { 'A-B': { secret: 'github', hosts: [mine.origin] } } }, /not the name of a variable/],
    [{ credentials: { KEY: { ...credentials.KEY, in: ['cookie'] } } }, /\/credentials\/KEY\/in/],
    [{ credentials: { KEY: { ...credentials.KEY, host: 'x' } } }, /did you mean "hosts"/],
    [{ credentials, env: { KEY: 'x' } }, /\/env\/KEY is a credential too/],
    [{ credentials }, /not in the tool's egress/, []],
    [{ credentials: ['KEY'] }, /must be an object/],
  ]
  for (const [index, [backend, message, egress]] of wrong.entries()) {
    gantry.register(define(`wrong${index}`, backend, egress))
    const { error } = await gantry.run(`own:wrong${index}`, {}, { identity: of('red') })
    assert.match(error?.message ?? '', message)
  }
})

test('invalid options are refused with their paths', () => {
  const issues = (sandboxNetwork: unknown): readonly (string | undefined)[] => {
    try {
      builtinTools({ sandboxNetwork: sandboxNetwork as SandboxNetworkOptions })
      return []
    } catch (error) {
      return ((error as { details?: { issues?: { path: string }[] } }).details?.issues ?? []).map(({ path }) => path)
    }
  }
  const good = { secret: 'github', hosts: ['https://api.github.com'] }
  assert.deepEqual(issues({ allow: ['https://*.github.com'], credentials: { TOKEN: good } }), [])
  assert.deepEqual(issues({ alow: [] }), ['/sandboxNetwork/alow'])
  assert.deepEqual(issues({ allow: ['api.github.com'] }), ['/sandboxNetwork/allow/0'])
  assert.deepEqual(issues({ credentials: { TOKEN: { ...good, tools: ['code:rum'] } } }), [
    '/sandboxNetwork/credentials/TOKEN/tools',
  ])
  assert.deepEqual(issues({ credentials: { TOKEN: 'github' } }), ['/sandboxNetwork/credentials/TOKEN'])
  assert.deepEqual(issues({ allow: ['https://b.example'], credentials: { TOKEN: good } }), [
    '/sandboxNetwork/credentials/TOKEN/hosts',
  ])
})

test(
  'a request that egress refuses is a warning of the result and an event, with the host and the line to add',
  skip,
  async (t) => {
    const { mine, gantry } = await setUp(t, granting)
    const logs: string[] = []
    gantry.on('call:reported', ({ report }) => {
      if (report.kind === 'log') logs.push(report.message)
    })
    const script = `for n in 1 2; do curl -sS http://blocked.example/ || true; done; curl -sSk ${mine.origin}/ >/dev/null; echo done`
    const result = await gantry.run('shell:run', { script, network: { allow: [mine.origin] } }, { identity: of('red') })
    assert.match(String((result.output as JsonObject).stdout), /done\n$/)
    assert.deepEqual(
      result.warnings.map(({ code }) => code),
      ['EGRESS_DENIED'],
    )
    assert.match(result.warnings[0]?.message ?? '', /http:\/\/blocked\.example.*Add "http:\/\/blocked\.example" to/)
    assert.deepEqual(logs, [result.warnings[0]?.message])
  },
)

test('a program that asks for an origin that no rule allows does not start', skip, async (t) => {
  const { mine, other, run, seen } = await setUp(t, () => ({}))
  const network = { allow: [mine.origin, 'https://blocked.example'] }
  const { error, runtime } = await run({ script: 'echo ran', network })
  assert.deepEqual([error?.code, error?.effect, runtime], ['EGRESS_DENIED', 'none', undefined])
  const [issue] = (error?.details?.issues ?? []) as unknown as readonly { path: string; message: string }[]
  assert.equal(issue?.path, '/network/allow/1')
  assert.match(issue?.message ?? '', /Add "https:\/\/blocked\.example" to egress\.allow/)
  assert.ok(!JSON.stringify(seen).includes('ran\\n'))
  assert.equal((await run({ script: 'echo ran', network: { allow: [other.origin] } })).status, 'ok')
})
