import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { driveGate, type Gate } from './brokers-gates.ts'
import { type BrokerKind, kafkaPlace, openBrokerSite, type Place, placeOf, redisPlace } from './brokers-places.ts'
import { type Fault, type Size, seed } from './fault.ts'
import { drive, mixed, type Plan, pooled } from './load.ts'
import { until } from './processes.ts'
import type { Site } from './site.ts'

const service = { leaseMs: 5_000, slots: 8, maxDeaths: 20 }

const load = (size: Size, prefix: string): Plan[] => mixed(size === 'quick' ? 24 : 150, createRandom(seed), 300, prefix)

export async function openGate(t: TestContext, place: Place, site: Site): Promise<Gate> {
  const gate = await place.open(site)
  t.after(() => gate.close())
  return gate
}

/** The numbers of stored calls and of results. */
async function storedIn(site: Site): Promise<{ readonly calls: number; readonly results: number }> {
  const { calls, results } = await site.stored()
  return { calls: calls.length, results: results.length }
}

const restarted = (kind: BrokerKind): Fault => ({
  number: 4,
  name: `no call is lost when ${kind} is killed under load and restarted`,
  async run(t, size) {
    const place = await placeOf(kind)
    const site = await openBrokerSite(t, [place], { service })
    const nodes = await Promise.all([site.start(), site.start()])
    const gate = await openGate(t, place, site)
    const rounds = size === 'quick' ? 1 : 3
    for (let round = 0; round < rounds; round++) {
      const { calls } = await storedIn(site)
      const driven = driveGate(gate, load(size, `r${round}-`), 12)
      assert.ok(await until(async () => (await storedIn(site)).calls > calls), 'no call was stored')
      place.server.kill()
      await sleep(500)
      await place.server.restart()
      await driven
    }
    assert.ok(
      nodes.every(({ alive }) => alive),
      'a node died with its broker',
    )
    const { counts } = await site.sound(`${kind} killed ${rounds} times`)
    assert.deepEqual([counts.attemptsLost, counts.ok], [0, counts.requests])
  },
})

const partitioned = (kind: BrokerKind): Fault => ({
  number: 5,
  name: `a worker cut off from ${kind} completes its calls, takes no new ones, and continues after the cut; a slow link only delays`,
  async run(t, size) {
    const place = await placeOf(kind, { linked: true })
    const { link } = place
    assert.ok(link)
    t.after(() => link.heal())
    const site = await openBrokerSite(t, [place], { service })
    const node = await site.start()
    const gate = await openGate(t, place, site)
    const running = driveGate(gate, load(size, 'cut-'), 40)
    await until(async () => (await storedIn(site)).calls > 0)
    await link.cut()
    const waiting = driveGate(gate, load(size, 'during-'), 40)
    // Messages in flight and running calls get time to be stored and to end, on a busy machine too.
    await sleep(3_000)
    const before = await storedIn(site)
    await sleep(size === 'quick' ? 2_000 : 10_000)
    const after = await storedIn(site)
    assert.equal(after.calls, before.calls, 'a call was taken from a broker that cannot be reached')
    assert.equal(after.results, after.calls, 'a call that was in hand did not end')
    assert.equal((await site.client.call('fault:read', { id: 'by-http' })).status, 'ok')
    await link.heal()
    await Promise.all([running, waiting])
    t.diagnostic(`${before.calls} calls were in before the cut, none came in during it`)
    await link.latency(50, 40)
    await link.slow(100)
    await driveGate(gate, load(size, 'slow-'), 40)
    await link.heal()
    assert.ok(node.alive)
    const { counts } = await site.sound(`${kind} cut off, late and slow`)
    assert.equal(counts.attemptsLost, 0)
  },
})

/** Repeats a request under its key until it gets a reply, for a broker that may lose data. */
async function askUntilAnswered(gate: Gate, plan: Plan, timeoutMs: number): Promise<void> {
  for (let again = 0; ; again++) {
    try {
      return await gate.ask(plan, { again, timeoutMs })
    } catch (error) {
      if (again > 20) throw error
    }
  }
}

const forgetful: Fault = {
  number: 6,
  name: 'requests that Redis lost are repeated under their key, and completed calls do not run again',
  async run(t, size) {
    const place = await redisPlace({ own: true })
    const log = join(place.server.folder, 'appendonlydir')
    const old = `${log}-old`
    const site = await openBrokerSite(t, [place], { service })
    await Promise.all([site.start(), site.start()])
    const gate = await openGate(t, place, site)
    t.after(() => place.server.stop())
    for (let round = 0; round < (size === 'quick' ? 2 : 4); round++) {
      const restoresOld = round % 2 === 1
      const driven = pooled(load(size, `r${round}-`), 20, (plan) => askUntilAnswered(gate, plan, 3_000))
      await sleep(200)
      rmSync(old, { recursive: true, force: true })
      cpSync(log, old, { recursive: true })
      await sleep(400)
      place.server.kill()
      if (restoresOld) {
        rmSync(log, { recursive: true })
        cpSync(old, log, { recursive: true })
      }
      await place.server.restart()
      await gate.stargazer?.openSession(gate.stargazer.traceId)
      await driven
    }
    await site.sound('Redis that forgets')
  },
}

const withoutRedis: Fault = {
  number: 11,
  name: 'while Redis is down calls over Kafka and HTTP continue, and without a session calls over Redis are denied',
  async run(t, size) {
    const [redis, kafka] = [await redisPlace(), await kafkaPlace()]
    const site = await openBrokerSite(t, [redis, kafka], { service })
    await Promise.all([site.start(), site.start()])
    const byRedis = await openGate(t, redis, site)
    const byKafka = await openGate(t, kafka, site)
    const waiting = driveGate(byRedis, load(size, 'redis-'), 12)
    assert.ok(await until(async () => (await storedIn(site)).calls > 0), 'no call was stored')
    redis.server.kill()
    await Promise.all([driveGate(byKafka, load(size, 'kafka-'), 12), drive(site, load(size, 'http-'), 12)]).finally(
      redis.server.restart,
    )
    await waiting

    const gateway = byRedis.stargazer
    assert.ok(gateway)
    const strangers = load(size, 'stranger-')
    const denied = await pooled(strangers, 12, ({ id, tool }) =>
      gateway.call(`fault:${tool}`, { id }, { correlationId: id, traceId: 'no-such-session' }),
    )
    const codes = new Set(denied.map(({ code }) => code))
    assert.deepEqual([...codes], ['UNAUTHENTICATED'])
    t.diagnostic(`${denied.length} of ${strangers.length} calls without a session were denied`)
    const { counts } = await site.sound('without Redis', 0.7)
    assert.equal(counts.attemptsLost, 0)
    assert.equal(counts.effects, counts.requests - strangers.length)
  },
}

export const brokerFaults: readonly Fault[] = [
  restarted('redis'),
  partitioned('redis'),
  partitioned('kafka'),
  forgetful,
  withoutRedis,
]

/** For the soak only: Kafka restarts slowly. */
export const slowBrokerFaults: readonly Fault[] = [restarted('kafka')]
