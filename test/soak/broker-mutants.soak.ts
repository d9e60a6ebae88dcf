import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { openGate } from '../faults/brokers-away.ts'
import { client, stopKeeping } from '../faults/brokers-kept.ts'
import { missingEngines, openBrokerSite, redisPlace } from '../faults/brokers-places.ts'
import { plansOf } from '../faults/crash.ts'
import type { Verdict } from '../faults/ledgers.ts'
import { pooled } from '../faults/load.ts'
import { until } from '../faults/processes.ts'

const skip = await missingEngines('redis')
/** For what a sound build does; one that is broken never does it. */
const givenMs = 5_000
const plans = plansOf('m', {}, ['once', 'keyed', 'read'])

const nodeOf = (mutant: string) => ({
  flags: ['--import', join(import.meta.dirname, '../faults/brokers-mutate.ts')],
  environment: { FAULT_MUTANT: mutant },
})

/** The worker dies with messages in hand that it could not keep yet, and another one comes. */
async function dieBeforeKept(t: TestContext, mutant: string): Promise<Verdict> {
  const place = await redisPlace()
  const site = await openBrokerSite(t, [place])
  const victim = await site.start(nodeOf(mutant))
  const gate = await openGate(t, place, site)
  const redis = client(t, place.environment.REDIS_URL)
  const restore = await stopKeeping(site)
  await pooled(plans, 3, (plan) => gate.send(plan))
  const lastRead = async (): Promise<unknown> => (await redis.xinfo('GROUPS', 'sg:stream:tools')) as unknown
  const [[last = ''] = []] = await redis.xrevrange('sg:stream:tools', '+', '-', 'COUNT', 1)
  assert.ok(await until(async () => JSON.stringify(await lastRead()).includes(last)), 'the messages were not read')
  await victim.kill()
  await restore()
  await site.again(victim)
  await until(() => site.ledgers.replies.length >= plans.length, givenMs)
  return site.verdict()
}

/** The worker dies once outcomes are kept and before it has answered, and another one lives. */
async function dieBeforeAnswered(t: TestContext, mutant: string): Promise<Verdict> {
  const place = await redisPlace()
  const site = await openBrokerSite(t, [place])
  const victim = await site.start(nodeOf(mutant))
  const gate = await openGate(t, place, site)
  await pooled(plans, 3, (plan) => gate.send(plan))
  assert.ok(await until(async () => (await site.stored()).results.length === plans.length))
  await victim.kill()
  assert.equal(site.ledgers.replies.length, 0, 'it answered before it was killed')
  const database = await openPostgres({ url: site.url ?? '', connections: 1 })
  // Whoever ended a call has some seconds to answer it itself; here they are over.
  await database.query(`update outbox set lease_until = now() where kind = 'reply'`)
  await database.close()
  await site.again(victim)
  await until(() => site.ledgers.replies.length >= plans.length, givenMs)
  return site.verdict()
}

test('the ledgers tell of a build that settles messages before their calls are kept', { skip }, async (t) => {
  const sound = await dieBeforeKept(t, '')
  assert.deepEqual([sound.lost, sound.unanswered], [[], []])
  const { lost, unanswered } = await dieBeforeKept(t, 'settled before it is kept')
  assert.deepEqual([lost.length, unanswered.length], [plans.length, plans.length])
})

test('the ledgers tell of a build that answers without an outbox', { skip }, async (t) => {
  const sound = await dieBeforeAnswered(t, 'answered late')
  assert.deepEqual([sound.lost, sound.unanswered], [[], []])
  const { lost, unanswered } = await dieBeforeAnswered(t, 'answered without an outbox')
  assert.deepEqual([lost.length, unanswered.length], [0, plans.length])
})
