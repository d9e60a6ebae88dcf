import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ChainStep, Identity, Json, JsonObject } from '@gantry/contract'
import { type DefinedTool, defineTool, type Rule } from '@gantry/core'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { newApiKey } from '../src/config/service-files.ts'
import { anyOf, keyFileAuthenticator } from '../src/http/authentication/authenticator.ts'
import { createHttpServer } from '../src/http/server.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { eventually, openBrokerSite, user } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { openServiceSite, operator, type ServiceSite } from './service-site.fixture.ts'

const file = redisForFile()
const never = new AbortController().signal
const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: [] }

function tool(name: string, run: (args: JsonObject) => unknown = () => name, rest: object = {}): DefinedTool {
  return defineTool({
    namespace: 't',
    name,
    version: '1.0.0',
    description: `The tool ${name}.`,
    inputSchema: { type: 'object' },
    effect: 'read',
    ...rest,
    run: (args) => run(args as JsonObject) as Json,
  })
}

function set({ service }: ServiceSite, ...rules: readonly Rule[]) {
  return service.policy.replace({ rules, default: 'allow' }, operator)
}

async function statusOf(site: ServiceSite, name: string, args: Json = {}, as = operator): Promise<string> {
  const { outcome } = await site.call(name, args, as)
  return outcome.error?.code ?? outcome.status
}

async function refusal(work: Promise<unknown>): Promise<{ code: string; message: string; details: unknown }> {
  const error = await work.then(
    () => assert.fail('it was admitted'),
    (thrown: { code: string; message: string; details: unknown }) => thrown,
  )
  return { code: error.code, message: error.message, details: error.details }
}

/** The audit entries of calls, with configuration version and details. */
function auditOf(database: Database, like: string) {
  return database.query<{ call_id: string; phase: string; tool: string; config: string; details: string | null }>(
    'select call_id, phase, tool, config, details from gantry.audit where call_id like $1 order by seq',
    [like],
  )
}

test('a policy set over the API applies at once, and can narrow the configured policy but not widen it', async (t) => {
  const policy = { rules: [{ allow: 't:*' }, { deny: 't:shut' }] as const }
  const site = await openServiceSite(t, pgliteDatabase, { tools: [tool('open'), tool('shut'), tool('late')], policy })
  assert.equal((await site.service.policy.read(operator)).stored, undefined)
  assert.equal(await statusOf(site, 't:open'), 'ok')
  const { version, stored } = await set(site, { deny: 't:open', reason: 'not today' }, { allow: 't:shut' })
  assert.equal(version, 'default+p1')
  assert.deepEqual([stored?.version, stored?.createdBy], [1, 'operator'])
  assert.match((await refusal(site.call('t:open', {}))).message, /not today/)
  assert.equal((await refusal(site.call('t:shut', {}))).code, 'DENIED')
  assert.equal(await statusOf(site, 't:late'), 'ok')
  await set(site)
  assert.equal(await statusOf(site, 't:open'), 'ok')
  await site.configure({ tools: [tool('open')] })
  assert.equal((await site.service.policy.read(operator)).version, 'default+p2')
})

test('a running chain keeps the policy that it began with, and a new one uses the new policy', async (t) => {
  const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const wait = tool('wait', () => {
    begun.resolve()
    return gate.promise.then(() => 'waited')
  })
  let runs = 0
  const site = await openServiceSite(t, pgliteDatabase, { tools: [wait, tool('pay', () => ++runs)] })
  const steps: ChainStep[] = [{ tool: 't:wait' }, { tool: 't:pay' }]
  const first = site.chain(steps)
  await begun.promise
  await set(site, { deny: 't:pay', reason: 'frozen' })
  const second = site.chain(steps)
  assert.equal((await refusal(site.call('t:pay', {}))).code, 'DENIED')
  gate.resolve()
  const [before, after] = [await first, await second]
  assert.deepEqual([before.outcome.status, after.outcome.status, runs], ['ok', 'denied', 1])
  assert.match(after.outcome.error?.message ?? '', /frozen/)

  const versions = async (callId: string) => {
    const rows = await auditOf(site.database, `${callId}%`)
    return new Set(rows.filter(({ config }) => config !== null).map(({ config }) => config))
  }
  assert.deepEqual(await versions(before.callId), new Set(['default']))
  assert.deepEqual(await versions(after.callId), new Set(['default+p1']))
  const denied = (await auditOf(site.database, `${after.callId}.%`)).find(({ details }) => details !== null)
  assert.deepEqual([denied?.phase, denied?.tool], ['end', 't:pay:1.0.0'])
  assert.match(denied?.details ?? '', /is denied: frozen/)
})

test('the policy decides again when a queued call runs, and the audit log has the reason of a denial', async (t) => {
  const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const wait = tool('wait', () => {
    begun.resolve()
    return gate.promise.then(() => 1)
  })
  const site = await openServiceSite(t, pgliteDatabase, { tools: [wait, tool('pay')] }, { slots: 1 })
  const first = site.call('t:wait', {})
  await begun.promise
  const queued = site.call('t:pay', {})
  await eventually(async () => {
    const { items } = await site.service.calls({}, operator)
    return items.some(({ tool: id }) => id.startsWith('t:pay')) || undefined
  }, 'a call that waits')
  await set(site, { deny: 't:pay', reason: 'frozen' })
  gate.resolve()
  await first
  const { callId, outcome } = await queued
  assert.equal(outcome.error?.code, 'DENIED')
  const end = (await auditOf(site.database, callId)).find(({ phase }) => phase === 'end')
  assert.deepEqual(
    [end?.config, JSON.parse(end?.details ?? '')],
    ['default+p1', { reason: 't:pay:1.0.0 is denied: frozen' }],
  )
})

test('every process of a service applies a new policy', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const tools = [tool('open')]
  const here = await openServiceSite(t, async () => database, { tools })
  const other = await openPostgres({ url })
  const there = await openServiceSite(t, async () => other, { tools })
  t.after(() => other.close())
  assert.equal(await statusOf(there, 't:open'), 'ok')
  await set(here, { deny: '*', reason: 'frozen' })
  await eventually(async () => {
    const { version } = await there.service.policy.test({ tool: 't:open' }, operator, never)
    return version === 'default+p1' || undefined
  }, 'the policy')
  assert.equal((await refusal(there.call('t:open', {}))).code, 'DENIED')
  const later = await openServiceSite(t, async () => database, { tools })
  assert.equal((await refusal(later.call('t:open', {}))).code, 'DENIED')
})

test('a policy test by key decides as the service does for the caller with that key', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, { tools: [tool('open'), tool('shut')] })
  const { policy, keys } = site.service
  await set(site, { deny: 't:open', to: 'key:ci', name: 'ci is out' })
  const { key: limited } = await keys.create({ name: 'limited', tools: ['t:shut'] }, operator)
  const { key: ci } = await keys.create({ name: 'ci' }, operator)
  const asked = (key: string, as = operator) => policy.test({ tool: 't:open', key }, as, never)
  const hidden = await asked(limited.id)
  assert.deepEqual([hidden.effect, hidden.exists, hidden.visible], ['deny', false, false])
  assert.deepEqual([(await asked(ci.id)).effect, (await asked(ci.id)).rule], ['deny', 'stored ci is out'])
  await keys.revoke(ci.id, operator)
  assert.match((await refusal(asked(ci.id))).message, /is revoked: a call with this key would end as UNAUTHENTICATED/)
  const elsewhere: Identity = { principal: 'kim', tenant: 'other', permissions: ['gantry:policy'] }
  assert.equal((await refusal(asked(limited.id, elsewhere))).code, 'NOT_FOUND')
  const both = policy.test({ tool: 't:open', key: limited.id, principal: 'bob' }, operator, never)
  assert.equal((await refusal(both)).code, 'INPUT_INVALID')
})

test('the policy can be read, set or tested for other tenants only with gantry:tenants, and a test explains the decision', async (t) => {
  const site = await openServiceSite(t, pgliteDatabase, {
    tools: [tool('open'), tool('pay', undefined, { permissions: ['pay'] })],
  })
  const { policy } = site.service
  const keeper: Identity = { ...bob, permissions: ['gantry:policy'] }
  for (const work of [policy.read(keeper), policy.replace({ rules: [] }, keeper)]) {
    assert.equal((await refusal(work)).code, 'DENIED')
  }
  await set(site, { ask: 't:open', to: 'eve', name: 'eve asks' })
  const eve = await policy.test({ tool: 't:open', principal: 'eve' }, keeper, never)
  assert.deepEqual([eve.effect, eve.rule, eve.version], ['ask', 'stored eve asks', 'default+p1'])
  const own = await policy.test({ tool: 't:pay' }, keeper, never)
  assert.deepEqual([own.effect, own.missing], ['deny', ['pay']])
  assert.equal(
    (await policy.test({ tool: 't:pay', principal: 'x', permissions: ['pay'] }, keeper, never)).effect,
    'allow',
  )
  assert.equal((await refusal(policy.test({ tool: 't:pay', tenant: 'other' }, keeper, never))).code, 'DENIED')
  assert.equal((await policy.test({ tool: 't:pay', tenant: 'other' }, operator, never)).effect, 'deny')
  const wrong = await refusal(policy.replace({ rules: [{ denny: '*' }] as never }, operator))
  assert.equal(wrong.code, 'CONFIG_INVALID')
  assert.equal((await policy.read(operator)).stored?.version, 1)
})

async function openHttp(t: TestContext, { service }: ServiceSite, people: readonly Identity[]) {
  const keys = new Map(people.map((who) => [who, newApiKey()]))
  const known = anyOf([...keys].map(([who, key]) => keyFileAuthenticator(key, who)))
  const log = { debug: () => undefined, info: () => undefined, error: () => undefined }
  const server = await createHttpServer({ service, authenticate: known.authenticate, log })
  t.after(() => server.close({ graceMs: 1_000 }))
  return async (as: Identity, path: string, body?: unknown): Promise<string> => {
    const headers = { authorization: `Bearer ${keys.get(as)}`, 'content-type': 'application/json' }
    const init = body === undefined ? { headers } : { method: 'POST', body: JSON.stringify(body), headers }
    const response = await fetch(`${server.url}${path}`, init)
    const varying = ['date', 'x-request-id']
    const head = [...response.headers].filter(([name]) => !varying.includes(name))
    return `${response.status} ${JSON.stringify(head)} ${await response.text()}`
  }
}

test('over HTTP the responses for a hidden tool, another tenant’s tool and an unknown tool are the same, byte for byte', async (t) => {
  const theirs: Identity = { principal: 'ann', tenant: 'theirs', permissions: ['*'] }
  const bound: Identity = { principal: 'bound', tenant: 'theirs', permissions: ['*'], tools: ['t:open', 'artifacts:*'] }
  const mine: Identity = { principal: 'mine', tenant: 'mine', permissions: ['*'] }
  const policy = {
    decide: () => ({ effect: 'allow' }) as const,
    exists: ({ tenant }: Identity, { name }: { name: string }) => tenant !== 'mine' || name !== 'secret',
  }
  const tools = [tool('open'), tool('secret', undefined, { placement: { zone: 'a' } })]
  await t.test('on a service with the tool and on one without', async (own) => {
    const site = await openServiceSite(own, pgliteDatabase, { tools, policy })
    const ask = await openHttp(own, site, [theirs, bound, mine])
    const here = await openServiceSite(own, pgliteDatabase, { tools: tools.slice(0, 1) })
    const without = await openHttp(own, here, [mine])
    const asked: [string, unknown?][] = [
      ['/v1/calls', { tool: 't:secret', args: {} }],
      ['/v1/calls', { tool: 't:secret', args: 5 }],
      ['/v1/calls', { tool: 't:secret:^9', args: {}, schemaDigest: 'x' }],
      ['/v1/tools/t:secret'],
      ['/v1/tools/t:secre?level=full'],
      ['/v1/tools'],
      ['/v1/tools?query=secret'],
      ['/v1/tools?query=the+tool+open&limit=1'],
      ['/v1/catalog'],
      ['/v1/policy/test', { tool: 't:secret' }],
      ['/v1/chains', { steps: [{ tool: 't:secret', args: {}, id: 7 }] }],
    ]
    for (const [path, body] of asked) {
      const absent = (await without(mine, path, body)).replaceAll('"version":"default"', '')
      for (const who of [mine, bound]) {
        const answer = (await ask(who, path, body)).replaceAll('"version":"default"', '')
        assert.equal(answer, absent, `${who.principal} ${path} ${JSON.stringify(body)}`)
      }
    }
    assert.match(await ask(theirs, '/v1/tools/t:secret'), /^200 /)
    assert.match(await ask(theirs, '/v1/catalog'), /t:secret/)
  })
})

test('over Redis the reply for a hidden tool equals that for an unknown one, by every name', async (t) => {
  const { url } = await file.server(t)
  const policy = {
    decide: () => ({ effect: 'allow' }) as const,
    exists: ({ tenant }: Identity, { name }: { name: string }) => tenant !== 'blue' || name === 'note',
  }
  const database = await pgliteDatabase(t)
  const site = await openBrokerSite(t, { redisUrl: url, database, redis: { permissions: ['*'] }, policy })
  await site.session('trace-blue', { ...user, guild_id: 'blue' })
  const answer = async (tool_name: string, trace_id: string, more: object = {}): Promise<string> => {
    const { correlation_id: _id, ...rest } = await site.reply(
      await site.call({ tool_name, ctx: { trace_id }, ...more }),
    )
    return JSON.stringify(rest).replaceAll(tool_name, 'NAME')
  }
  for (const [hidden, absent] of [
    ['test:report', 'test:xxxxxx'],
    ['test:report:1.0.0', 'test:xxxxxx:1.0.0'],
    ['test__report', 'test__xxxxxx'],
    ['report', 'xxxxxx'],
  ] as const) {
    for (const more of [{}, { schema_hash: 'f'.repeat(64) }, { tool_args: { odd: 1 } }]) {
      const unknown = await answer(absent, 'trace-blue', more)
      assert.equal(await answer(hidden, 'trace-blue', more), unknown, hidden)
      assert.match(unknown, /TOOL_NOT_FOUND|CATALOG_STALE/)
    }
    assert.match(await answer(hidden, 'trace-1'), /done/)
  }
  assert.match(await answer('note', 'trace-blue'), /discord:1/)
})
