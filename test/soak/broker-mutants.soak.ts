import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { client, stopKeeping } from '../faults/brokers-kept.ts'
import { missingEngines, openBrokerSite, redisPlace } from '../faults/brokers-places.ts'
import { openGate } from '../faults/brokers-unavailable.ts'
import { plansOf } from '../faults/crash.ts'
import type { Verdict } from '../faults/ledgers.ts'
import { pooled } from '../faults/load.ts'
import { until } from '../faults/processes.ts'

const skip = await missingEngines('redis')
/** The time limit for replies: a sound build sends them eventually, a broken one never does. */
const givenMs = (mutant: string): number => (mutant.startsWith('settled') || mutant.endsWith('outbox') ? 5_000 : 60_000)
const plans = plansOf('m', {}, ['once', 'keyed', 'read'])

const nodeOf = (mutant: string) => ({
  flags: ['--import', join(import.meta.dirname, '../faults/brokers-mutate.ts')],
  environment: { FAULT_MUTANT: mutant },
})

/** Kills the worker with messages that it could not store yet, and starts another. */
async function dieBeforeKept(t: TestContext, mutant: string): Promise<Verdict> {
  const place = await redisPlace()
  const site = await openBrokerSite(t, [place])
  const victim = await site.start(nodeOf(mutant))
  const gate = await openGate(t, place, site)
  const redis = client(t, place.environment.REDIS_URL)
  const restore = await stopKeeping(site)
  await pooled(plans, 3, (plan) => gate.send(plan))
  const group = async (): Promise<string> => JSON.stringify(await redis.xinfo('GROUPS', 'sg:stream:tools'))
  const [[last = ''] = []] = await redis.xrevrange('sg:stream:tools', '+', '-', 'COUNT', 1)
  assert.ok(await until(async () => (await group()).includes(last)), 'the messages were not read')
  const unsettled = async (): Promise<number> => Number((await redis.xpending('sg:stream:tools', 'sg:tools'))[0])
  const expected = mutant === '' ? plans.length : 0
  assert.ok(await until(async () => (await unsettled()) === expected), `${await unsettled()} messages are not settled`)
  await victim.kill()
  await restore()
  await site.again(victim)
  await until(() => site.ledgers.replies.length >= plans.length, givenMs(mutant))
  return site.verdict()
}

/** Kills the worker after outcomes are stored and before it has replied; another one runs. */
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
  // The process that completed a call has some seconds to reply; here they have passed.
  await database.query(`update outbox set lease_until = now() where kind = 'reply'`)
  await database.close()
  await site.again(victim)
  await until(() => site.ledgers.replies.length >= plans.length, givenMs(mutant))
  return site.verdict()
}

test('the ledgers detect a build that acknowledges messages before their calls are stored', { skip }, async (t) => {
  const sound = await dieBeforeKept(t, '')
  assert.deepEqual([sound.lost, sound.unanswered], [[], []])
  const { lost, unanswered } = await dieBeforeKept(t, 'settled before it is kept')
  assert.deepEqual([lost.length, unanswered.length], [plans.length, plans.length])
})

test('the ledgers detect a build that replies without an outbox', { skip }, async (t) => {
  const sound = await dieBeforeAnswered(t, 'answered late')
  assert.deepEqual([sound.lost, sound.unanswered], [[], []])
  const { lost, unanswered } = await dieBeforeAnswered(t, 'answered without an outbox')
  assert.deepEqual([lost.length, unanswered.length], [0, plans.length])
})
