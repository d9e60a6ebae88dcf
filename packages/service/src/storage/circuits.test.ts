import assert from 'node:assert/strict'
import { testOnDatabases } from './calls.fixture.ts'
import { type CircuitRecords, circuitRecords } from './circuits.ts'
import type { Database } from './databases/database.ts'

const key = 'weather:today @ http:weather'
const leaseMs = 60_000

/** An empty table. */
async function setUp(database: Database): Promise<CircuitRecords> {
  await database.query('delete from circuits')
  return circuitRecords(database)
}

/** Lets time pass for what is in the table. */
async function pass(database: Database, ms: number): Promise<void> {
  const by = `- ${ms} * interval '1 millisecond'`
  await database.query(`
    update circuits set retry_at = retry_at ${by}, trial_until = trial_until ${by}, changed_at = changed_at ${by}`)
}

testOnDatabases({
  'of several who open a circuit, the later end of the rest and the longer streak stay': async ({ database }) => {
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

  'nobody gets a trial before the rest is over, and then one of many who ask at once': async ({ database }) => {
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
    assert.ok(later.kind === 'wait' && later.waitMs >= 20_000, 'a trial that takes long is asked about less often')
  },

  'a fault of the trial opens the circuit again, and opening by another does not end the trial': async ({
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

  'who made the trial closes the circuit, and nobody else while it is on trial or rests': async ({ database }) => {
    const circuits = await setUp(database)
    await circuits.open([{ key, restMs: 5_000, streak: 1 }], 'a')
    await circuits.close([key], 'a')
    assert.equal((await circuits.list()).length, 1, 'it rests')
    await pass(database, 5_000)
    await circuits.claimTrial(key, 'a', leaseMs)
    await circuits.close([key], 'b')
    assert.equal((await circuits.list()).length, 1, 'it is on trial')
    await circuits.close([key], 'a')
    assert.deepEqual(await circuits.list(), [])
    assert.deepEqual(await circuits.claimTrial(key, 'b', leaseMs), { kind: 'closed' })
    await circuits.open([{ key, restMs: 0, streak: 1 }], 'a')
    await circuits.close([key], 'b')
    assert.deepEqual(await circuits.list(), [], 'nobody tried it, and its rest was over')
  },

  'a trial whose worker died is for the next, and the dead one’s late verdict does not count': async ({ database }) => {
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

  'a trial is kept as long as it is renewed, and is free at once when it is left': async ({ database }) => {
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

  'whoever listens hears who changed something, and nothing when nothing changed': async ({ database }, t) => {
    const circuits = await setUp(database)
    const heard: (string | undefined)[] = []
    const last = Promise.withResolvers<void>()
    const unlisten = await database.listen('gantry_circuit', (from) => {
      heard.push(from)
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
    assert.deepEqual(heard, ['a', 'b', 'last'])
  },

  'a circuit that nobody has tried for a day is forgotten when another opens': async ({ database }) => {
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
