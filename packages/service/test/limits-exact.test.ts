import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import type { CallInput } from '../src/storage/calls/call-store.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
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

function someone(tenant: string, principal = 'ada'): Identity {
  return { tenant, principal, permissions: ['*'] }
}

/** How many of these concurrent calls were admitted; each of the others was refused by a limit. */
async function takenOf({ service }: LimitedSite, inputs: readonly CallInput[], who: Identity): Promise<number> {
  const tries = await Promise.allSettled(inputs.map((input) => service.submit(input, who)))
  for (const one of tries) if (one.status === 'rejected') assert.equal(one.reason.code, 'RATE_LIMITED')
  return tries.filter(({ status }) => status === 'fulfilled').length
}

test('concurrent submissions never exceed the queue limit of a tenant or of a principal', async (t) => {
  const ledger = createLedger()
  t.after(ledger.open)
  const tenants = {
    acme: { queued: 5, concurrency: 1 },
    beta: { queued: 50, principals: { '*': { queued: 3 } } },
    brief: { queued: 4 },
  }
  const database = (await pgliteDatabase(t)).asService()
  const site = await openLimitedSite(t, { database, tenants, tools: ledger.tools, service: { slots: 2 } })
  const gated = { kind: 'call', tool: 't:gated', args: {} } as const
  const flood = (who: Identity, given: object = {}) => takenOf(site, Array(120).fill({ ...gated, ...given }), who)
  assert.equal(await flood(someone('acme'), { delayMs: 600_000 }), 5)
  assert.equal(await flood(someone('beta'), { delayMs: 600_000 }), 3)
  assert.equal(await flood(someone('beta', 'bob'), { delayMs: 600_000 }), 3)
  const taken = await flood(someone('brief'))
  assert.ok(taken <= 6, `${taken} were taken, of which two have a slot`)
  const sql = `select count(*)::integer as calls from queue where tenant = 'brief' and lease_until is null`
  const [row] = await database.query<{ calls: number }>(sql)
  assert.ok((row?.calls ?? 0) <= 4, `${row?.calls} wait`)
  ledger.open()
})

test('concurrent submissions never exceed the total queue limit', async (t) => {
  const ledger = createLedger()
  t.after(ledger.open)
  const database = (await pgliteDatabase(t)).asService()
  const site = await openLimitedSite(t, {
    database,
    tenants: { '*': { concurrency: 1 } },
    tools: ledger.tools,
    service: { slots: 2, maxQueued: 5 },
  })
  const gated = { kind: 'call', tool: 't:gated', args: {} } as const
  const first = await site.service.submit(gated, someone('acme'))
  await eventually(async () => ledger.began.length === 1 || undefined, 'the first to run')
  // The first call may count as queued until the next recount.
  let taken = 0
  const flood = async () => {
    taken += await takenOf(site, Array(120).fill(gated), someone('acme'))
    return taken >= 5 || undefined
  }
  await eventually(flood, 'a full queue')
  await flood()
  assert.equal(taken, 5)
  ledger.open()
  await site.service.wait(first.callId, someone('acme'), 20_000, never)
  const again = async () => ((await takenOf(site, [gated], someone('acme'))) === 1 ? true : undefined)
  await eventually(again, 'a free place in the queue')
})

for (const [engine, open] of Object.entries(engines)) {
  test(`${engine}: the budget that repeats and rejected calls refund is available again, in another process too`, async (t) => {
    const { database, redisUrl } = await open(t)
    const { tools } = createLedger()
    const tenant = `acme-${Math.random().toString(36).slice(2)}`
    const tenants = { [tenant]: slowBudget(10) }
    const site = { database, tenants, tools, ...(redisUrl === undefined ? {} : { redisUrl }) }
    const first = await openLimitedSite(t, site)
    const who = someone(tenant)
    const call = { kind: 'call', tool: 't:dear', args: {} } as const
    const keyed = { ...call, idempotencyKey: 'once' }
    await first.service.submit(keyed, who)
    await first.service.submit(keyed, who)
    await assert.rejects(first.service.submit({ ...keyed, args: { other: 1 } }, who), { code: 'IDEMPOTENCY_CONFLICT' })
    const past = { ...call, deadline: '2020-01-01T00:00:00Z' }
    await assert.rejects(first.service.submit(past, who), { code: 'PAYLOAD_INVALID' })
    // A new process has no units taken in advance, so that it sees what the bucket holds.
    await first.stop()
    const second = await openLimitedSite(t, site)
    await second.service.submit(call, who)
    await assert.rejects(second.service.submit(call, who), { code: 'RATE_LIMITED' })
  })
}

test('a raised budget or rate applies from the next call on', async (t) => {
  const { tools } = createLedger()
  const database = (await pgliteDatabase(t)).asService()
  const tenants = { acme: slowBudget(5), beta: slowRate(1) }
  const site = await openLimitedSite(t, { database, tenants, tools })
  const dear = { kind: 'call', tool: 't:dear', args: {} } as const
  for (const tenant of ['acme', 'beta']) {
    await site.service.submit(dear, someone(tenant))
    await assert.rejects(site.service.submit(dear, someone(tenant)), { code: 'RATE_LIMITED' })
  }
  await site.limit({ acme: { cost: { budget: 1_000_000_000, everyMs: 1 } }, beta: { rate: { perSecond: 1_000_000 } } })
  for (const tenant of ['acme', 'beta']) await site.service.submit(dear, someone(tenant))
})
