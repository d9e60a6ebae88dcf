import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import type { Gate } from './brokers-gates.ts'
import { kafkaPlace, openBrokerSite, redisPlace } from './brokers-places.ts'
import { openGate } from './brokers-unavailable.ts'
import { plansOf } from './crash.ts'
import { isQuiet, ownServer } from './database.ts'
import { type Fault, type Size, seed } from './fault.ts'
import { mixed, type Plan, pooled } from './load.ts'
import { until } from './processes.ts'
import type { Site } from './site.ts'
import { readLedger } from './tools.ts'

const sleepers = (prefix: string, size: Size, afterMs: number): Plan[] =>
  Array.from({ length: size === 'quick' ? 2 : 16 }, (_, n) => n).flatMap((n) => plansOf(`${prefix}-${n}`, { afterMs }))

const actedAll = (site: Site, plans: readonly Plan[]): Promise<boolean> =>
  until(() => {
    const acted = new Set(readLedger(`${site.folder}/ledger`).map(({ id }) => id))
    return plans.every(({ id }) => acted.has(id))
  })

const withoutDatabase = (killed: boolean): Fault => ({
  number: killed ? 8 : 7,
  name: `calls over brokers wait while PostgreSQL is down${killed ? ' and their worker killed' : ''}, and every outcome is recorded and replied`,
  async run(t, size) {
    const { server, database } = await ownServer(t)
    const places = [await redisPlace(), await kafkaPlace()]
    const service = { leaseMs: 5_000, slots: 128 }
    const site = await openBrokerSite(t, places, { url: server.url, database, service })
    let node = await site.start()
    const gates = await Promise.all(places.map((place) => openGate(t, place, site)))
    for (let round = 0; round < (size === 'quick' ? 1 : 2); round++) {
      const running = gates.map((_, n) => sleepers(`run${round}${n}`, size, 1_000))
      const answered = askAll(gates, running)
      assert.ok(await actedAll(site, running.flat()), 'the calls did not begin')
      server.kill()
      const later = askAll(
        gates,
        gates.map((_, n) => sleepers(`late${round}${n}`, size, 0)),
      )
      assert.ok(
        await until(async () => (await site.metric('gantry_spool_depth')) > 0),
        `no outcome waits: ${node.said}`,
      )
      assert.ok(await until(() => isQuiet(site)), `calls run, or outcomes are not on disk yet: ${node.said}`)
      const depth = await site.metric('gantry_spool_depth')
      if (killed) await node.kill()
      await server.restart()
      if (killed) node = await site.again(node)
      await Promise.all([answered, later])
      assert.ok(await until(async () => (await site.metric('gantry_spool_depth')) === 0))
      t.diagnostic(`round ${round}: ${depth} outcomes waited on disk`)
    }
    const { counts } = await site.sound('PostgreSQL down', 1)
    assert.equal(counts.unknown, 0)
  },
})

async function askAll(gates: readonly Gate[], plans: readonly (readonly Plan[])[]): Promise<void> {
  await Promise.all(gates.map((gate, n) => pooled(plans[n] ?? [], 200, (plan) => gate.ask(plan))))
}

const repliesTrimmed: Fault = {
  number: 17,
  name: 'a repeat under the same key gets a reply that was trimmed unread, and runs nothing again',
  async run(t, size) {
    const place = await redisPlace()
    const site = await openBrokerSite(t, [place], { service: { slots: 8 } })
    await Promise.all([site.start(), site.start()])
    const gate = await openGate(t, place, site)
    const redis = client(t, place.environment.REDIS_URL)
    const plans = mixed(size === 'quick' ? 40 : 400, createRandom(seed), 50)
    const away = 'sg:stream:tools:replies:inference-away'
    await pooled(plans, 20, (plan) => gate.send(plan, away))
    let trimmed = 0
    const answered = async (): Promise<boolean> => {
      trimmed += await redis.xtrim(away, 'MAXLEN', 10)
      return trimmed >= plans.length - 10
    }
    assert.ok(await until(answered), `only ${trimmed} answers came`)
    const before = readLedger(`${site.folder}/ledger`).length
    await pooled(plans, 20, (plan) => gate.ask(plan, { again: 1 }))
    assert.equal(readLedger(`${site.folder}/ledger`).length, before, 'something was done again')
    t.diagnostic(`${trimmed} answers were trimmed away, ${await redis.xlen(away)} were left`)
    await site.sound('answers trimmed', 1)
  },
}

const jobsTrimmed: Fault = {
  number: 18,
  name: 'each message trimmed before it was stored is counted and becomes a dead letter, and can be sent again',
  async run(t, size) {
    const place = await redisPlace()
    const site = await openBrokerSite(t, [place], { service: { slots: 512 } })
    let node = await site.start()
    const gate = await openGate(t, place, site)
    const redis = client(t, place.environment.REDIS_URL)
    const plans = mixed(size === 'quick' ? 30 : 300, createRandom(seed), 0)
    const restore = await stopKeeping(site)
    await pooled(plans, 30, (plan) => gate.send(plan))
    const pending = async (): Promise<number> => Number((await redis.xpending('sg:stream:tools', 'sg:tools'))[0])
    assert.ok(await until(async () => (await pending()) === plans.length), `only ${await pending()} were read`)
    await node.kill()
    await redis.xtrim('sg:stream:tools', 'MAXLEN', 0)
    await restore()
    node = await site.again(node)
    const gone = (): Promise<number> => site.metric('gantry_messages_gone_total')
    assert.ok(await until(async () => (await gone()) === plans.length), `${await gone()} alarms: ${node.said}`)
    await pooled(plans, 30, (plan) => gate.ask(plan, { again: 1 }))
    const { counts } = await site.sound('jobs trimmed', 1)
    assert.equal(counts.dead, plans.length)
    t.diagnostic(`${plans.length} messages trimmed, ${counts.dead} dead letters`)
  },
}

/** Blocks inserts of calls by a lock until the returned function is called. */
export async function stopKeeping(site: Site): Promise<() => Promise<void>> {
  const database = await openPostgres({ url: site.url ?? '', connections: 2, statementMs: 0 })
  const locked = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const held = database.transaction(async (queries) => {
    await queries.query('lock table calls in access exclusive mode')
    locked.resolve()
    await end.promise
  })
  await locked.promise
  return async () => {
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    )
    end.resolve()
    await held
    await database.close()
  }
}

export function client(t: TestContext, url: string | undefined): Redis {
  const redis = new Redis(url ?? '')
  t.after(() => redis.disconnect())
  return redis
}

const rebalanced: Fault = {
  number: 19,
  name: 'long calls run once while workers join and leave and partitions are rebalanced',
  async run(t, size) {
    const place = await kafkaPlace()
    const site = await openBrokerSite(t, [place], { service: { leaseMs: 5_000, slots: 16, graceMs: 20_000 } })
    await Promise.all([site.start(), site.start()])
    const gate = await openGate(t, place, site)
    const [calls, takesMs, everyMs, times] = size === 'quick' ? [24, 2_000, 500, 1] : [300, 4_000, 5_000, 3]
    const plans = mixed(calls, createRandom(seed), 50).map((plan) => ({
      ...plan,
      args: plan.tool === 'alone' ? {} : { afterMs: takesMs },
    }))
    const driven = pooled(plans, 60, (plan) => gate.ask(plan))
    for (let time = 0; time < times; time++) {
      const guest = await site.start()
      await sleep(everyMs)
      assert.equal(await guest.stop(), 0, guest.said)
      await sleep(everyMs / 2)
    }
    await driven
    const { counts } = await site.sound(`${2 * times} rebalances`, 1)
    assert.deepEqual([counts.repeated, counts.attemptsLost, counts.unknown], [0, 0, 0])
  },
}

/** For the soak only: the variant that also kills the worker proves more. */
export const slowKeptFaults: readonly Fault[] = [withoutDatabase(false)]

export const keptFaults: readonly Fault[] = [withoutDatabase(true), repliesTrimmed, jobsTrimmed, rebalanced]
