import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRedis } from '../../../scripts/engines/redis.ts'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { defaultAuthentication } from '../src/config/authentication-settings.ts'
import { newApiKey } from '../src/config/service-files.ts'
import { owner } from '../src/config/service-settings.ts'
import { createKeyControl } from '../src/http/authentication/key-control.ts'
import { openAuthentication } from '../src/http/authentication/open-authentication.ts'
import { createHttpServer } from '../src/http/server.ts'
import { createBus } from '../src/observe/bus.ts'
import { keyRecords } from '../src/storage/keys/api-keys.ts'
import { eventually, openBrokerSite, user } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { createLedger, openLimitedSite, slowRate } from './limits.fixture.ts'

const redis = redisForFile()

test('121: many keys, addresses and connections of one principal or tenant share its limits, over HTTP', async (t) => {
  const database = (await pgliteDatabase(t)).asService()
  const { tools } = createLedger()
  const tenants = { acme: { ...slowRate(10), principals: { '*': slowRate(4) } } }
  const site = await openLimitedSite(t, { database, tenants, tools })
  const keys = createKeyControl(keyRecords(database), async () => undefined)
  const authentication = await openAuthentication({
    database,
    owner,
    key: newApiKey(),
    bus: createBus(),
    settings: { authentication: defaultAuthentication },
  })
  const silent = (): void => undefined
  const server = await createHttpServer({
    service: site.service,
    authenticate: authentication.authenticate,
    log: { debug: silent, info: silent, error: silent },
  })
  t.after(async () => {
    await server.close({ graceMs: 1_000 })
    await authentication.close()
  })
  const maker = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  const keyOf = async (principal: string, tenant: string): Promise<string> => {
    const given = { name: 'key', principal, tenant, permissions: ['*'] }
    return (await keys.create(given, { ...maker, tenant })).text ?? assert.fail()
  }
  let requests = 0
  const ask = (key: string): Promise<Response> => {
    requests += 1
    const address = `10.0.0.${requests}`
    return fetch(`${server.url}/v1/calls`, {
      method: 'POST',
      body: JSON.stringify({ tool: 't:work', args: {} }),
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        connection: 'close',
        'x-forwarded-for': address,
        forwarded: `for=${address}`,
        'x-real-ip': address,
        'cf-connecting-ip': address,
        'x-api-key': `k${requests}`,
        'user-agent': `agent ${requests}`,
      },
    })
  }
  const passed = async (those: readonly string[]): Promise<number> => {
    const answers = await Promise.all(those.map(ask))
    for (const answer of answers) {
      if (answer.status < 300) continue
      assert.equal(answer.status, 429)
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
      const { error } = (await answer.json()) as { error: { code: string; details: { retryAfterMs: number } } }
      assert.equal(error.code, 'RATE_LIMITED')
      assert.ok(error.details.retryAfterMs > 0)
    }
    return answers.filter(({ status }) => status < 300).length
  }
  const twice = (list: readonly string[]): string[] => [...list, ...list]
  const eves = await Promise.all(Array.from({ length: 6 }, () => keyOf('eve', 'acme')))
  assert.equal(await passed(twice(eves)), 4)
  const others = await Promise.all(Array.from({ length: 10 }, (_, n) => keyOf(`p${n}`, 'acme')))
  assert.equal(await passed(twice(others)), 6, 'what eve left of the ten')
  const stranger = await keyOf('eve', 'other')
  assert.equal(await passed(twice(Array.from({ length: 6 }, () => stranger))), 12)
})

test('121: many sessions of one user share its limit, over Redis, and calls beyond it get a RATE_LIMITED reply', async (t) => {
  const database = (await pgliteDatabase(t)).asService()
  const { url } = await redis.server(t)
  const tenants = { red: { principals: { '*': slowRate(4) } } }
  const site = await openBrokerSite(t, { redisUrl: url, database, tenants })
  const traces = Array.from({ length: 8 }, (_, n) => `session-${n}`)
  await Promise.all(traces.map((trace) => site.session(trace)))
  const asked = await Promise.all(traces.map((trace_id) => site.call({ ctx: { trace_id } })))
  const replies = await Promise.all(asked.map(site.reply))
  const limited = replies.filter(({ code }) => code === 'RATE_LIMITED').length
  assert.deepEqual([limited, site.notes.length], [4, 4])
  await site.session('another-user', { ...user, user_id: '2' })
  await site.reply(await site.call({ ctx: { trace_id: 'another-user' } }))
  assert.equal(site.notes.at(-1)?.identity.principal, 'discord:2')
})

test('while Redis is unavailable calls of tenants with a limit are rejected, and others are served', async (t) => {
  const server = await startRedis()
  let up = true
  t.after(async () => (up ? server.stop() : undefined))
  const { tools } = createLedger()
  const tenants = { acme: { rate: { perSecond: 100, burst: 50 } } }
  const database = (await pgliteDatabase(t)).asService()
  const site = await openLimitedSite(t, { database, tenants, tools, redisUrl: server.url })
  const submit = (tenant: string) =>
    site.service.submit({ kind: 'call', tool: 't:work', args: {} }, { principal: 'ada', tenant, permissions: ['*'] })
  await submit('acme')
  await server.stop()
  up = false
  let passed = 0
  const code = await eventually(async () => {
    try {
      await submit('acme')
      passed += 1
      return undefined
    } catch (error) {
      return (error as { code: string }).code
    }
  }, 'a refusal')
  assert.equal(code, 'STORE_UNAVAILABLE')
  assert.ok(passed <= 10, `${passed} calls passed on what was taken in advance`)
  for (let n = 0; n < 5; n++) await assert.rejects(submit('acme'), { code: 'STORE_UNAVAILABLE' })
  await submit('other')
})
