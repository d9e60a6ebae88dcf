import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ChainResult, Identity } from '@gantry/contract'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { sqlCallStore } from '../src/storage/calls/sql.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { createLedger, type LimitedSite, openLimitedSite } from './limits.fixture.ts'

const redis = redisForFile()
const never = new AbortController().signal

const engines: { readonly [name: string]: (t: TestContext) => Promise<{ database: Database; redisUrl?: string }> } = {
  PGlite: async (t) => ({ database: (await pgliteDatabase(t)).asService() }),
  PostgreSQL: async (t) => ({ database: (await postgresDatabase(t)).database.asService() }),
  'PostgreSQL with Redis': async (t) => ({
    database: (await postgresDatabase(t)).database.asService(),
    redisUrl: (await redis.server(t)).url,
  }),
}

function someone(tenant: string, principal = 'ada', given: Partial<Identity> = {}): Identity {
  return { tenant, principal, permissions: ['*'], ...given }
}

/** The codes of so many calls: `ok` for those that were taken in. */
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

/** So little flows in that a test sees none of it. */
const slowly = { perSecond: 0.000_01, burst: 20 }

for (const [engine, open] of Object.entries(engines)) {
  test(`${engine}: processes share a rate and a budget, and not one call more passes than they allow`, async (t) => {
    const { database, redisUrl } = await open(t)
    const { tools } = createLedger()
    const suffix = Math.random().toString(36).slice(2)
    const [acme, rich] = [`acme-${suffix}`, `rich-${suffix}`]
    const tenants = { [acme]: { rate: slowly }, [rich]: { cost: { budget: 50, everyMs: 1_000_000_000 } } }
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

test('an idempotent repeat does not cost twice, and a call that is refused for its arguments costs nothing', async (t) => {
  const { tools } = createLedger()
  const tenants = { acme: { cost: { budget: 10, everyMs: 1_000_000_000 } } }
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

test('whoever asks again under the same key is answered, whatever limit he has reached', async (t) => {
  const { tools } = createLedger()
  const tenants = {
    acme: { rate: { ...slowly, burst: 2 } },
    dear: { cost: { budget: 5, everyMs: 1_000_000_000 } },
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
  test(`${engine}: what a chain calls inside counts for the rate and the budget, and not one passes that may not`, async (t) => {
    const { database, redisUrl } = await open(t)
    const { tools, began } = createLedger()
    const suffix = Math.random().toString(36).slice(2)
    const [acme, rich, brisk] = [`acme-${suffix}`, `rich-${suffix}`, `brisk-${suffix}`]
    const tenants = {
      [acme]: { rate: { ...slowly, burst: 5 } },
      [rich]: { cost: { budget: 23, everyMs: 1_000_000_000 } },
      [brisk]: { rate: { perSecond: 20, burst: 1 } },
    }
    const site = await openLimitedSite(t, {
      ...{ database, tenants, tools, ...(redisUrl === undefined ? {} : { redisUrl }) },
    })
    const run = async (tenant: string, steps: readonly object[]): Promise<ChainResult> => {
      const who = someone(tenant)
      const { callId } = await site.service.submit({ kind: 'chain', args: { steps } } as never, who)
      return (await site.service.wait(callId, who, 20_000, never)) as ChainResult
    }
    const each = (tool: string, given: object = {}) => ({ id: 'each', tool, forEach: [1, 2, 3, 4, 5, 6], ...given })
    const codesIn = ({ steps }: ChainResult) => steps.flatMap(({ results }) => results.map(({ error }) => error?.code))
    const ran = (tenant: string) => began.filter((who) => who === `${tenant} ada`).length
    // The chain counts for one, so that four are left for what it calls.
    const limited = await run(acme, [each('t:work', { onError: 'continue', concurrency: 3 })])
    assert.deepEqual([limited.status, ran(acme)], ['ok', 4])
    assert.equal(codesIn(limited).filter((code) => code === 'RATE_LIMITED').length, 2)
    // Five units are spent when it is taken in, and pay for the first; 18 are left for three more.
    const dear = await run(rich, [each('t:dear', { onError: 'continue' })])
    assert.deepEqual([dear.status, ran(rich)], ['ok', 4])
    assert.equal(codesIn(dear).filter((code) => code === 'RATE_LIMITED').length, 2)
    assert.equal((await run(rich, [{ tool: 't:work' }])).status, 'ok', 'what costs nothing passes')
    const slowed = await run(brisk, [each('t:work'), { id: 'last', tool: 't:work' }])
    assert.deepEqual([slowed.status, ran(brisk)], ['ok', 7])
  })
}

test('what a program calls counts too, be it asked for itself, as a step of a chain or within one of its own', async (t) => {
  const { tools, began } = createLedger()
  const tenants = { '*': { rate: { ...slowly, burst: 6 } } }
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
  // Of six, one is for what is asked for, and one for each program and chain within that is called as a tool.
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

test('no more calls of one chain run at a time than its tenant and its principal may have', async (t) => {
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

test('a chain costs what its steps cost together', async (t) => {
  const { tools } = createLedger()
  const tenants = { acme: { cost: { budget: 12, everyMs: 1_000_000_000 } } }
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants, tools })
  const step = (id: string) => ({ id, tool: 't:dear', args: {} })
  const chain = (...steps: readonly object[]) => ({ kind: 'chain', args: { steps } }) as never
  await assert.rejects(site.service.submit(chain(step('a'), { parallel: [step('b'), step('c')] }), someone('acme')), {
    code: 'LIMIT_EXCEEDED',
  })
  await site.service.submit(chain(step('a'), step('b')), someone('acme'))
  await assert.rejects(site.service.submit(chain(step('a')), someone('acme')), { code: 'RATE_LIMITED' })
})

test('of two workers together no more calls of a tenant or a principal run than may, and all are done', async (t) => {
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
  test(`long calls of one, however short those before were, do not keep out another’s, from ${where}`, async (t) => {
    const { url, database } = await postgresDatabase(t)
    const second = await openPostgres({ url })
    t.after(() => second.close())
    const ledger = createLedger()
    const site = { tenants: {}, tools: ledger.tools }
    const worker = await openLimitedSite(t, { ...site, database: database.asService() })
    const api = await openLimitedSite(t, { ...site, database: second.asService(), service: { roles: ['api'] } })
    const door = where === 'another process' ? api : worker
    t.after(ledger.open)
    const [quiet, noisy] = [someone('quiet'), someone('noisy')]
    const work = { kind: 'call', tool: 't:work', args: {} } as const
    for (let n = 0; n < 150; n++) await untilDone(worker, [(await worker.service.submit(work, quiet)).callId], quiet)
    assert.equal(count(await codesOf(door, 't:gated', noisy, 320), 'ok'), 320)
    await eventually(async () => ledger.began.filter((who) => who === 'noisy ada').length >= 56 || undefined, 'a crowd')
    for (const who of [quiet, someone('third')]) {
      const { callId } = await door.service.submit(work, who)
      const result = await door.service.wait(callId, who, 20_000, never)
      assert.equal(result?.status, 'ok', `the call of ${who.tenant}`)
    }
    assert.equal(ledger.most.get('noisy'), 56, 'one slot in eight is kept')
    ledger.open()
  })
}

test('with ten thousand calls of one waiting, the calls of another begin with the next free slot', async (t) => {
  const { database } = await postgresDatabase(t)
  const ledger = createLedger()
  const site = await openLimitedSite(t, {
    ...{ database: database.asService(), tenants: {}, tools: ledger.tools, service: { slots: 4 } },
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
    // Those that have a slot, and those that were claimed in the same step, are all that may come before.
    const overtaken = place < 0 ? 0 : place - before
    assert.ok(overtaken <= 64, `${overtaken} calls of another began first`)
  }
  const noisy = ledger.began.filter((who) => who.startsWith('noisy')).length
  assert.ok(noisy > 0 && noisy < 10_000, `${noisy} of the other’s calls were done`)
  assert.equal(ids.length, 20)
})

test('with ten thousand calls of one waiting, those of another are all in the next claims, one for one', async (t) => {
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

/** So many calls of a tenant, put into the queue behind the service's back. */
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

test('a tenant with too many calls waiting is refused until some are done, and others are not', async (t) => {
  const ledger = createLedger()
  const site = await openLimitedSite(t, {
    ...{ database: (await pgliteDatabase(t)).asService(), tenants: { acme: { queued: 5 } }, tools: ledger.tools },
    service: { slots: 2 },
  })
  const running = await codesOf(site, 't:gated', someone('free'), 2)
  assert.equal(count(running, 'ok'), 2)
  const codes: string[] = []
  for (let n = 0; n < 12; n++) codes.push(...(await codesOf(site, 't:gated', someone('acme'), 1)))
  const taken = count(codes, 'ok')
  // One may have come straight in, beside those that wait.
  assert.ok(taken >= 5 && taken <= 7, `${taken} calls were taken`)
  assert.equal(count(codes, 'RATE_LIMITED'), 12 - taken)
  assert.equal(count(await codesOf(site, 't:gated', someone('free'), 10), 'ok'), 10)
  ledger.open()
})

test('limits follow the configuration', async (t) => {
  const { tools } = createLedger()
  const site = await openLimitedSite(t, { database: (await pgliteDatabase(t)).asService(), tenants: {}, tools })
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 30)
  await site.limit({ acme: { rate: { ...slowly, burst: 3 } } })
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 3)
  await site.limit({})
  assert.equal(count(await codesOf(site, 't:work', someone('acme'), 30), 'ok'), 30)
})
