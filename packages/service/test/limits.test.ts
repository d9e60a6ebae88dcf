import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainResult, Identity } from '@gantry/contract'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { sqlCallStore } from '../src/storage/calls/sql.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import {
  createLedger,
  type LimitedSite,
  limitEngines,
  openLimitedSite,
  slowBudget,
  slowRate,
} from './limits.fixture.ts'

const redis = redisForFile()
const never = new AbortController().signal

const engines = limitEngines(redis)

function someone(tenant: string, principal = 'ada', given: Partial<Identity> = {}): Identity {
  return { tenant, principal, permissions: ['*'], ...given }
}

/** The result of `count` concurrent submissions: `ok` or the error code of each. */
async function codesOf({ service }: LimitedSite, tool: string, who: Identity, count: number): Promise<string[]> {
  const tries = Array.from({ length: count }, () => service.submit({ kind: 'call', tool, args: {} }, who))
  return (await Promise.allSettled(tries)).map((one) => (one.status === 'fulfilled' ? 'ok' : one.reason.code))
}

function count(codes: readonly string[], code: string): number {
  return codes.filter((one) => one === code).length
}

async function untilDone({ service }: LimitedSite, ids: readonly string[], who: Identity): Promise<void> {
  for (const callId of ids) await service.wait(callId, who, 20_000, never)
}

for (const [engine, open] of Object.entries(engines)) {
  test(`${engine}: processes share a rate and a budget, and admit exactly as many calls as these allow`, async (t) => {
    const { database, redisUrl } = await open(t)
    const { tools } = createLedger()
    const suffix = Math.random().toString(36).slice(2)
    const [acme, rich] = [`acme-${suffix}`, `rich-${suffix}`]
    const tenants = { [acme]: slowRate(20), [rich]: slowBudget(50) }
    const site = { database, tenants, tools, ...(redisUrl === undefined ? {} : { redisUrl }) }
    const first = await openLimitedSite(t, site)
    const sites = database.exclusive ? [first] : [first, await openLimitedSite(t, site)]
    const taken = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        codesOf(sites[n % sites.length] as LimitedSite, 't:work', someone(acme, `p${n}`), 2),
      ),
    )
    assert.deepEqual([count(taken.flat(), 'ok'), count(taken.flat(), 'RATE_LIMITED')], [20, 40])
    const dear = await Promise.all(sites.map((one) => codesOf(one, 't:dear', someone(rich), 12)))
    assert.equal(count(dear.flat(), 'ok'), 10)
    assert.equal(count(await codesOf(first, 't:work', someone(rich), 5), 'ok'), 5, 'what costs nothing passes')
    assert.equal(count(await codesOf(first, 't:work', someone('free'), 5), 'ok'), 5)
  })
}

test('an idempotent repeat is charged once, and a call rejected for its arguments costs nothing', async (t) => {
  const { tools } = createLedger()
  const tenants = { acme: slowBudget(10) }
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants, tools })
  const who = someone('acme')
  const call = { kind: 'call', tool: 't:dear', args: {} } as const
  await assert.rejects(site.service.submit({ ...call, args: [] as never }, who), { code: 'INPUT_INVALID' })
  await assert.rejects(site.service.submit({ ...call, schemaDigest: 'x' }, who), { code: 'CATALOG_STALE' })
  const keyed = { ...call, idempotencyKey: 'once' }
  const { callId } = await site.service.submit(keyed, who)
  for (let n = 0; n < 3; n++) assert.equal((await site.service.submit(keyed, who)).callId, callId)
  await assert.rejects(site.service.submit({ ...keyed, args: { other: 1 } }, who), { code: 'IDEMPOTENCY_CONFLICT' })
  await site.service.submit(call, who)
  await assert.rejects(site.service.submit(call, who), { code: 'RATE_LIMITED' })
})

test('a repeat under the same idempotency key is answered although a limit is reached', async (t) => {
  const { tools } = createLedger()
  const tenants = {
    acme: slowRate(2),
    dear: slowBudget(5),
  }
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants, tools })
  for (const tenant of ['acme', 'dear']) {
    const who = someone(tenant)
    const keyed = { kind: 'call', tool: 't:dear', args: {}, idempotencyKey: 'once' } as const
    const { callId } = await site.service.submit(keyed, who)
    await untilDone(site, [callId], who)
    for (let n = 0; n < 6; n++) assert.equal((await site.service.submit(keyed, who)).callId, callId)
    const limited = { code: 'RATE_LIMITED' }
    await assert.rejects(site.service.submit({ ...keyed, idempotencyKey: 'another' }, who), limited)
    await assert.rejects(site.service.submit({ ...keyed, args: { other: 1 } }, who), limited)
    await assert.rejects(site.service.submit(keyed, someone(tenant, 'bob')), limited)
  }
})

for (const [engine, open] of Object.entries(engines)) {
  test(`${engine}: the calls of a chain count against the rate and the budget, exactly`, async (t) => {
    const { database, redisUrl } = await open(t)
    const { tools, began } = createLedger()
    const suffix = Math.random().toString(36).slice(2)
    const [acme, rich, brisk] = [`acme-${suffix}`, `rich-${suffix}`, `brisk-${suffix}`]
    const tenants = {
      [acme]: slowRate(5),
      [rich]: slowBudget(23),
      [brisk]: { rate: { perSecond: 20, burst: 1 } },
    }
    const site = await openLimitedSite(t, {
      database,
      tenants,
      tools,
      ...(redisUrl === undefined ? {} : { redisUrl }),
    })
    const run = async (tenant: string, steps: readonly object[]): Promise<ChainResult> => {
      const who = someone(tenant)
      const { callId } = await site.service.submit({ kind: 'chain', args: { steps } } as never, who)
      return (await site.service.wait(callId, who, 20_000, never)) as ChainResult
    }
    const each = (tool: string, given: object = {}) => ({ id: 'each', tool, forEach: [1, 2, 3, 4, 5, 6], ...given })
    const codesIn = ({ steps }: ChainResult) => steps.flatMap(({ results }) => results.map(({ error }) => error?.code))
    const ran = (tenant: string) => began.filter((who) => who === `${tenant} ada`).length
    // The chain takes one token, so that four are left for its calls.
    const limited = await run(acme, [each('t:work', { onError: 'continue', concurrency: 3 })])
    assert.deepEqual([limited.status, ran(acme)], ['ok', 4])
    assert.equal(codesIn(limited).filter((code) => code === 'RATE_LIMITED').length, 2)
    // Admission charges five units, which pay for the first call; the remaining 18 pay for three more.
    const dear = await run(rich, [each('t:dear', { onError: 'continue' })])
    assert.deepEqual([dear.status, ran(rich)], ['ok', 4])
    assert.equal(codesIn(dear).filter((code) => code === 'RATE_LIMITED').length, 2)
    assert.equal((await run(rich, [{ tool: 't:work' }])).status, 'ok', 'what costs nothing passes')
    const slowed = await run(brisk, [each('t:work'), { id: 'last', tool: 't:work' }])
    assert.deepEqual([slowed.status, ran(brisk)], ['ok', 7])
  })
}

test('the calls of a program count against the rate, also when it runs inside a chain or another program', async (t) => {
  const { tools, began } = createLedger()
  const tenants = { '*': slowRate(6) }
  const database = (await pgliteDatabase(t)).asService()
  const site = await openLimitedSite(t, { database, tenants, tools })
  const calling = `const codes = []
    for (let n = 0; n < 8; n++) await tools.t.work({}).then(() => codes.push('ok'), (error) => codes.push(error.code))
    return codes`
  const program = (code: string) => ({ tool: 'code:program', args: { code } })
  const inChain = (code: string) => ({ kind: 'chain', args: { steps: [{ id: 'it', ...program(code) }] } })
  const within = `return await run('code:program', { code: ${JSON.stringify(calling)} })`
  const chained = `const steps = [{ id: 'it', tool: 'code:program', args: { code: ${JSON.stringify(calling)} } }]
    return await chain(steps)`
  const asked = {
    alone: { kind: 'call', ...program(calling) },
    'in a chain': inChain(calling),
    'in a program': inChain(within),
    'in a chain of a program': inChain(chained),
  }
  // Of six tokens, the submission takes one, and each nested program or chain called as a tool one.
  const passed = { alone: 5, 'in a chain': 4, 'in a program': 3, 'in a chain of a program': 3 }
  for (const [how, input] of Object.entries(asked)) {
    const who = someone(how.replaceAll(' ', '-'))
    const { callId } = await site.service.submit(input as never, who)
    const result = await site.service.wait(callId, who, 60_000, never)
    assert.equal(result?.status, 'ok', `${how} ${JSON.stringify(result?.error)}`)
    const codes = result?.output as string[]
    const most = passed[how as keyof typeof passed]
    assert.deepEqual([count(codes, 'ok'), count(codes, 'RATE_LIMITED')], [most, 8 - most], how)
    assert.equal(count(began, `${who.tenant} ada`), most, how)
  }
})

test('concurrent calls of a chain stay within the concurrency limits of its tenant and principal', async (t) => {
  const ledger = createLedger()
  const tenants = { acme: { concurrency: 3, principals: { bob: { concurrency: 1 } } } }
  const database = (await pgliteDatabase(t)).asService()
  const site = await openLimitedSite(t, { database, tenants, tools: ledger.tools })
  const steps = [{ tool: 't:work', forEach: Array.from({ length: 20 }, (_, n) => n), concurrency: 16 }]
  for (const who of [someone('acme'), someone('acme', 'bob'), someone('free')]) {
    const { callId } = await site.service.submit({ kind: 'chain', args: { steps } } as never, who)
    assert.equal((await site.service.wait(callId, who, 20_000, never))?.status, 'ok')
  }
  const most = ['acme ada', 'acme bob', 'free ada'].map((who) => ledger.most.get(who) ?? 0)
  assert.deepEqual(most.slice(0, 2), [3, 1])
  assert.ok((most[2] ?? 0) > 3, 'without a limit more run')
})

test('a chain is charged the sum of its steps', async (t) => {
  const { tools } = createLedger()
  const tenants = { acme: slowBudget(12) }
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants, tools })
  const step = (id: string) => ({ id, tool: 't:dear', args: {} })
  const chain = (...steps: readonly object[]) => ({ kind: 'chain', args: { steps } }) as never
  await assert.rejects(site.service.submit(chain(step('a'), { parallel: [step('b'), step('c')] }), someone('acme')), {
    code: 'LIMIT_EXCEEDED',
  })
  await site.service.submit(chain(step('a'), step('b')), someone('acme'))
  await assert.rejects(site.service.submit(chain(step('a')), someone('acme')), { code: 'RATE_LIMITED' })
})

test('two workers together stay within the concurrency limits of a tenant and a principal, and complete all calls', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const other = await openPostgres({ url })
  t.after(() => other.close())
  const ledger = createLedger()
  const tenants = { acme: { concurrency: 3, principals: { '*': { concurrency: 2 } } }, beta: { concurrency: 1 } }
  const site = { tenants, tools: ledger.tools, service: { slots: 8 } }
  const first = await openLimitedSite(t, { ...site, database: database.asService() })
  const second = await openLimitedSite(t, { ...site, database: other.asService() })
  const people = ['acme ada', 'acme bob', 'beta ada', 'free ada'].map((name) => name.split(' ') as [string, string])
  const submit = async (which: LimitedSite, [tenant, principal]: [string, string]) => {
    const who = someone(tenant, principal)
    const { callId } = await which.service.submit({ kind: 'call', tool: 't:work', args: {} }, who)
    return { callId, who }
  }
  const calls = await Promise.all(
    Array.from({ length: 80 }, (_, n) => submit(n % 2 ? first : second, people[n % 4] as [string, string])),
  )
  for (const [index, { callId, who }] of calls.entries()) await untilDone(index % 3 ? first : second, [callId], who)
  const most = (who: string): number => ledger.most.get(who) ?? 0
  assert.ok(most('acme') <= 3 && most('acme') > 0, `acme ran ${most('acme')}`)
  assert.ok(most('acme ada') <= 2 && most('acme bob') <= 2)
  assert.equal(most('beta'), 1)
  assert.equal(ledger.began.length, 80)
})

for (const where of ['the same process', 'another process']) {
  test(`long calls of one tenant leave slots to others although earlier calls were short, submitted from ${where}`, async (t) => {
    const { url, database } = await postgresDatabase(t)
    const second = await openPostgres({ url })
    t.after(() => second.close())
    const ledger = createLedger()
    const site = { tenants: {}, tools: ledger.tools }
    const worker = await openLimitedSite(t, { ...site, database: database.asService() })
    const api = await openLimitedSite(t, { ...site, database: second.asService(), service: { roles: ['api'] } })
    const entry = where === 'another process' ? api : worker
    t.after(ledger.open)
    const [quiet, noisy] = [someone('quiet'), someone('noisy')]
    const work = { kind: 'call', tool: 't:work', args: {} } as const
    for (let n = 0; n < 150; n++) await untilDone(worker, [(await worker.service.submit(work, quiet)).callId], quiet)
    assert.equal(count(await codesOf(entry, 't:gated', noisy, 320), 'ok'), 320)
    await eventually(async () => ledger.began.filter((who) => who === 'noisy ada').length >= 66 || undefined, 'a crowd')
    for (const who of [quiet, someone('third')]) {
      const { callId } = await entry.service.submit(work, who)
      const result = await entry.service.wait(callId, who, 20_000, never)
      assert.equal(result?.status, 'ok', `the call of ${who.tenant}`)
    }
    assert.equal(ledger.most.get('noisy'), 66, 'three quarters of the slots')
    ledger.open()
  })

  test(`after a start, hanging calls of one tenant leave several slots to a second and one to a third, submitted from ${where}`, async (t) => {
    const { url, database } = await postgresDatabase(t)
    const second = await openPostgres({ url })
    t.after(() => second.close())
    const ledger = createLedger()
    t.after(ledger.open)
    const site = { tenants: {}, tools: ledger.tools }
    const worker = await openLimitedSite(t, { ...site, database: database.asService(), service: { slots: 24 } })
    const api = await openLimitedSite(t, { ...site, database: second.asService(), service: { roles: ['api'] } })
    const entry = where === 'another process' ? api : worker
    const began = (tenant: string): number => ledger.began.filter((who) => who === `${tenant} ada`).length
    for (const [tenant, calls, run] of [
      ['noisy', 80, 18],
      ['quiet', 20, 3],
      ['third', 5, 1],
    ] as const) {
      assert.equal(count(await codesOf(entry, 't:gated', someone(tenant), calls), 'ok'), calls)
      await eventually(async () => began(tenant) >= run || undefined, `${run} calls of ${tenant}`)
    }
    const { callId } = await entry.service.submit({ kind: 'call', tool: 't:work', args: {} }, someone('fourth'))
    assert.equal((await entry.service.wait(callId, someone('fourth'), 20_000, never))?.status, 'ok')
    assert.deepEqual(Object.fromEntries(['noisy', 'quiet', 'third'].map((one) => [one, ledger.most.get(one)])), {
      noisy: 18,
      quiet: 3,
      third: 1,
    })
    ledger.open()
    await eventually(async () => (began('noisy') === 80 && began('quiet') === 20) || undefined, 'all calls')
  })
}

test('with ten thousand queued calls of one tenant, a call of another begins within the next batch of claims', async (t) => {
  const { database } = await postgresDatabase(t)
  const ledger = createLedger()
  const site = await openLimitedSite(t, {
    database: database.asService(),
    tenants: {},
    tools: ledger.tools,
    service: { slots: 4 },
  })
  await queueMany(database, 'noisy', 10_000)
  const quiet = someone('quiet')
  await eventually(async () => ledger.began.length > 0 || undefined, 'calls of the other')
  const ids: string[] = []
  for (let n = 0; n < 20; n++) {
    const { callId } = await site.service.submit({ kind: 'call', tool: 't:work', args: {} }, quiet)
    const before = ledger.began.length
    await untilDone(site, [callId], quiet)
    ids.push(callId)
    const place = ledger.began.indexOf('quiet ada', before)
    // Only calls that hold a slot or were claimed in the same batch may begin first.
    const overtaken = place < 0 ? 0 : place - before
    assert.ok(overtaken <= 64, `${overtaken} calls of another began first`)
  }
  const noisy = ledger.began.filter((who) => who.startsWith('noisy')).length
  assert.ok(noisy > 0 && noisy < 10_000, `${noisy} of the other’s calls were done`)
  assert.equal(ids.length, 20)
})

test('with ten thousand queued calls of one tenant, claims alternate between it and another tenant', async (t) => {
  const { database } = await postgresDatabase(t)
  await queueMany(database, 'noisy', 10_000)
  await queueMany(database, 'quiet', 5)
  const store = sqlCallStore(database)
  const busy = { noisy: 0, quiet: 0 }
  const claimed: string[] = []
  for (const max of [2, 1, 1, 6]) {
    for (const { call } of await store.claim(max, { worker: 'w', leaseMs: 60_000, busy })) {
      const tenant = call.identity.tenant as keyof typeof busy
      claimed.push(tenant)
      busy[tenant] += 1
    }
  }
  assert.equal(claimed.length, 10)
  assert.deepEqual(busy, { noisy: 5, quiet: 5 })
})

/** Inserts calls of a tenant straight into the queue. */
async function queueMany(database: Database, tenant: string, calls: number): Promise<void> {
  const identity = JSON.stringify(someone(tenant))
  await database.query(
    `insert into calls (call_id, kind, tenant, principal, identity, fingerprint, tool, effect, payload, payload_bytes)
     select $1 || '-' || i, 'call', $1, 'ada', $3, 'f', 't:work:1.0.0', 'read', '{}', 2 from generate_series(1, $2::int) i`,
    [tenant, calls, identity],
  )
  await database.query(
    `insert into queue (call_id, tenant, principal) select $1 || '-' || i, $1, 'ada' from generate_series(1, $2::int) i`,
    [tenant, calls],
  )
  await database.query(`select pg_notify('gantry_ready', '')`)
}

test('a tenant at its queue limit is rejected, and others are not', async (t) => {
  const ledger = createLedger()
  const site = await openLimitedSite(t, {
    database: (await pgliteDatabase(t)).asService(),
    tenants: { acme: { queued: 5 } },
    tools: ledger.tools,
    service: { slots: 2 },
  })
  const running = await codesOf(site, 't:gated', someone('free'), 2)
  assert.equal(count(running, 'ok'), 2)
  const codes: string[] = []
  for (let n = 0; n < 12; n++) codes.push(...(await codesOf(site, 't:gated', someone('acme'), 1)))
  const taken = count(codes, 'ok')
  // A slot may have freed up meanwhile, so that a call ran instead of waiting.
  assert.ok(taken >= 5 && taken <= 7, `${taken} calls were taken`)
  assert.equal(count(codes, 'RATE_LIMITED'), 12 - taken)
  assert.equal(count(await codesOf(site, 't:gated', someone('free'), 10), 'ok'), 10)
  ledger.open()
})

test('a reload of the configuration changes the limits', async (t) => {
  const { tools } = createLedger()
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants: {}, tools })
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 30)
  await site.limit({ acme: slowRate(3) })
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 3)
  await site.limit({})
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 30)
})
