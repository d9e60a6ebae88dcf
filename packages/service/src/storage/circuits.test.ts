import assert from 'node:assert/strict'
import { testOnDatabases } from './calls.fixture.ts'
import { type CircuitRecords, circuitRecords } from './circuits.ts'
import type { Database } from './databases/database.ts'

const key = 'weather:today @ http:weather'
const leaseMs = 60_000

/** The records, over an emptied table. */
async function setUp(database: Database): Promise<CircuitRecords> {
  await database.query('delete from circuits')
  return circuitRecords(database)
}

/** Moves all times in the table into the past. */
async function pass(database: Database, ms: number): Promise<void> {
  const by = `- ${ms} * interval '1 millisecond'`
  await database.query(`
    update circuits set retry_at = retry_at ${by}, trial_until = trial_until ${by}, changed_at = changed_at ${by}`)
}

testOnDatabases({
  'a circuit that several workers open keeps the latest retry time and the longest streak': async ({ database }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 5_000, streak: 3 }], 'a')
    await circuits.open([{ key, restMs: 60_000, streak: 1 }], 'b')
    await circuits.open([{ key, restMs: 1_000, streak: 2 }], 'c')
    const [open, ...others] = await circuits.list()
    assert.deepEqual(others, [])
    assert.equal(open?.streak, 3)
    assert.ok(Number(open?.restMs) > 50_000 && Number(open?.restMs) <= 60_000, `${open?.restMs}`)
    assert.equal(open?.trialBy, undefined)
  },

  'no trial is granted before the retry time, and then one of many concurrent claims': async ({ database }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 30_000, streak: 1 }], 'a')
    const early = await circuits.claimTrial(key, 'a', leaseMs)
    assert.ok(early.kind === 'wait' && early.waitMs > 20_000 && early.waitMs <= 30_000, JSON.stringify(early))
    await pass(database, 30_000)
    const asked = await Promise.all(
      Array.from({ length: 30 }, (_, index) => circuits.claimTrial(key, `w${index}`, leaseMs)),
    )
    assert.equal(asked.filter(({ kind }) => kind === 'granted').length, 1)
    const waits = asked.flatMap((answer) => (answer.kind === 'wait' ? [answer.waitMs] : []))
    assert.equal(waits.length, 29)
    assert.ok(waits.every((ms) => ms === 1_000))
    const winner = asked.findIndex(({ kind }) => kind === 'granted')
    assert.equal((await circuits.list())[0]?.trialBy, `w${winner}`)
    await pass(database, 20_000)
    const later = await circuits.claimTrial(key, 'x', leaseMs)
    assert.ok(later.kind === 'wait' && later.waitMs >= 20_000, 'workers ask less often about a long trial')
  },

  'a failed trial opens the circuit again, and an opening by another worker does not end the trial': async ({
    database,
  }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.claimTrial(key, 'a', leaseMs)
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'b')
    assert.equal((await circuits.claimTrial(key, 'b', leaseMs)).kind, 'wait')
    assert.equal((await circuits.list())[0]?.trialBy, 'a')
    await circuits.open([{ key, restMs: 9_000, streak: 2 }], 'a')
    const [open] = await circuits.list()
    assert.deepEqual([open?.trialBy, open?.streak], [undefined, 2])
    await pass(database, 9_000)
    assert.equal((await circuits.claimTrial(key, 'b', leaseMs)).kind, 'granted')
  },

  'a circuit is closed by the worker with the trial, or by any worker after the retry time without a trial': async ({
    database,
  }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 5_000, streak: 1 }], 'a')
    await circuits.close([key], 'a')
    assert.equal((await circuits.list()).length, 1, 'before the retry time')
    await pass(database, 5_000)
    await circuits.claimTrial(key, 'a', leaseMs)
    await circuits.close([key], 'b')
    assert.equal((await circuits.list()).length, 1, 'another worker has the trial')
    await circuits.close([key], 'a')
    assert.deepEqual(await circuits.list(), [])
    assert.deepEqual(await circuits.claimTrial(key, 'b', leaseMs), { kind: 'closed' })
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.close([key], 'b')
    assert.deepEqual(await circuits.list(), [], 'no worker had the trial, and the retry time had passed')
  },

  'the trial of a lost worker is granted to the next, and the late verdict of the lost worker is ignored': async ({
    database,
  }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.claimTrial(key, 'dead', leaseMs)
    await pass(database, leaseMs - 1_000)
    await circuits.renewTrials([key], 'other', leaseMs)
    assert.equal((await circuits.claimTrial(key, 'a', leaseMs)).kind, 'wait')
    await pass(database, 1_000)
    assert.equal((await circuits.list())[0]?.trialBy, undefined)
    assert.equal((await circuits.claimTrial(key, 'a', leaseMs)).kind, 'granted')
    await circuits.close([key], 'dead')
    assert.equal((await circuits.list())[0]?.trialBy, 'a')
    await circuits.open([{ key, restMs: 9_000, streak: 2 }], 'a')
    await circuits.close([key], 'dead')
    assert.equal((await circuits.list()).length, 1)
  },

  'a worker keeps a trial while it renews it, and another gets it as soon as it is left': async ({ database }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.claimTrial(key, 'a', leaseMs)
    await pass(database, leaseMs - 1_000)
    await circuits.renewTrials([key], 'a', leaseMs)
    await pass(database, leaseMs - 1_000)
    assert.equal((await circuits.claimTrial(key, 'b', leaseMs)).kind, 'wait')
    await circuits.leaveTrials([key], 'b')
    assert.equal((await circuits.claimTrial(key, 'b', leaseMs)).kind, 'wait')
    await circuits.leaveTrials([key], 'a')
    assert.equal((await circuits.claimTrial(key, 'b', leaseMs)).kind, 'granted')
  },

  'a change of a circuit notifies listeners with the worker that made it, and no change sends nothing': async (
    { database },
    t,
  ) => {
    const circuits = await setUp(database)
    const received: (string | undefined)[] = []
    const last = Promise.withResolvers<void>()
    const unlisten = await database.listen('gantry_circuit', (from) => {
      received.push(from)
      if (from === 'last') last.resolve()
    })
    t.after(unlisten)
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.claimTrial(key, 'b', leaseMs)
    await circuits.close([key, 'another'], 'c')
    await circuits.close([key], 'b')
    await circuits.close([key], 'b')
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'last')
    await last.promise
    assert.deepEqual(received, ['a', 'b', 'last'])
  },

  'a circuit without a trial for a day is removed when another opens': async ({ database }) => {
    const circuits = await setUp(database)
    const many = Array.from({ length: 20 }, (_, index) => ({ key: `k${index}`, restMs: 1_000, streak: 1 }))
    await circuits.open(many, 'a')
    await pass(database, 23 * 3_600_000)
    await circuits.open([{ key, restMs: 1_000, streak: 1 }], 'a')
    assert.equal((await circuits.list()).length, 21)
    await pass(database, 2 * 3_600_000)
    await circuits.open([{ key: 'k3', restMs: 1_000, streak: 1 }], 'a')
    assert.deepEqual((await circuits.list()).map((one) => one.key).sort(), ['k3', key])
  },
})
