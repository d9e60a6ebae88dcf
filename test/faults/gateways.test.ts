import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRandom } from '../../packages/service/test/simulator/world.ts'
import { driveGate } from './brokers-gates.ts'
import { kafkaPlace, missingEngines, openBrokerSite, redisPlace } from './brokers-places.ts'
import { openGate } from './brokers-unavailable.ts'
import { seed } from './fault.ts'
import { drive, mixed } from './load.ts'

const skip = await missingEngines('redis', 'kafka')

test('one worker serves both gateways and HTTP callers at the same time', { skip }, async (t) => {
  t.diagnostic(`seed ${seed}`)
  const [redis, kafka] = [await redisPlace(), await kafkaPlace()]
  const site = await openBrokerSite(t, [redis, kafka], { service: { slots: 16 } })
  await site.start()
  const [byRedis, byKafka] = [await openGate(t, redis, site), await openGate(t, kafka, site)]
  const load = (prefix: string) => mixed(60, createRandom(seed), 50, prefix)
  await Promise.all([
    driveGate(byRedis, load('redis-'), 20),
    driveGate(byKafka, load('kafka-'), 20),
    drive(site, load('http-'), 20),
  ])
  for (const origin of ['redis', 'kafka', 'http']) {
    const answered = new Set(site.ledgers.replies.map(({ id }) => id).filter((id) => id.startsWith(`${origin}-`)))
    assert.equal(answered.size, 60, origin)
  }
  const { counts } = await site.sound('both gateways and HTTP', 1)
  assert.deepEqual([counts.requests, counts.effects, counts.attemptsLost], [180, 180, 0])
})
