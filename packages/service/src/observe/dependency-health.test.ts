import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus } from './bus.ts'
import { createDependencyHealth } from './dependency-health.ts'

/** A database whose probe answers what the test says, a broker without one, and a clock of the test's own. */
function watching() {
  const bus = createBus()
  const told: string[] = []
  bus.on('dependency:down', ({ dependency, reason }) => told.push(`${dependency} down: ${reason}`))
  bus.on('dependency:up', ({ dependency, downMs }) => told.push(`${dependency} up after ${downMs}`))
  let failure: string | undefined
  let probes = 0
  let time = 0
  const run = async (): Promise<void> => {
    probes += 1
    if (failure !== undefined) throw new Error(failure)
  }
  const health = createDependencyHealth({
    ...{ bus, dependencies: { database: { run, always: true }, kafka: null }, now: () => time },
  })
  const failed = (operation: string, dependency = 'database'): void =>
    bus.emit('dependency:failed', { dependency, operation, reason: `${operation} refused` })
  const worked = (operation: string, dependency = 'database'): void =>
    bus.emit('dependency:worked', { dependency, operation })
  const set = (next: string | undefined): void => {
    failure = next
  }
  const pass = (ms: number): void => {
    time += ms
  }
  return { health, told, failed, worked, set, pass, probes: () => probes, isUp: () => health.isUp('database') }
}

test('a database that answers and takes nothing is down until its probe can write, whether or not calls come', async () => {
  const { health, told, set, pass, isUp } = watching()
  set('read-only')
  pass(2_000)
  const [database] = await health.fresh()
  assert.deepEqual([database?.up, database?.reason, isUp()], [false, 'read-only', false])
  set(undefined)
  pass(1_000)
  await health.probe()
  assert.deepEqual([isUp(), told], [true, ['database down: read-only', 'database up after 1000']])
})

test('one operation that fails makes the probe decide at once, and alone takes nothing down', async () => {
  const { health, told, failed, probes, isUp } = watching()
  failed('submit')
  await health.fresh()
  assert.deepEqual([probes(), isUp(), told], [1, true, []])
})

test('many operations that fail together with the probe keep nothing down once it works again', async () => {
  const { health, failed, set, pass, isUp } = watching()
  set('gone')
  for (let n = 0; n < 30; n += 1) failed('submit')
  await health.fresh()
  assert.equal(isUp(), false)
  for (let n = 0; n < 30; n += 1) failed('submit')
  set(undefined)
  pass(1_000)
  await health.probe()
  assert.equal(isUp(), true)
})

test('an operation that is refused again and again is believed although the probe works, until it works itself', async () => {
  const { health, failed, worked, pass, isUp } = watching()
  for (let n = 0; n < 3; n += 1) {
    failed('submit')
    await health.fresh()
    pass(1_000)
  }
  worked('claim')
  assert.equal(isUp(), false)
  pass(2_000)
  await health.probe()
  assert.equal(isUp(), true, 'it is down for ever')
  failed('submit')
  assert.equal(isUp(), false)
  worked('submit')
  assert.equal(isUp(), true)
})

test('at rest the probe runs now and then only, and while it is down each time', async () => {
  const { health, set, pass, probes } = watching()
  for (let second = 0; second < 10; second += 1) {
    pass(1_000)
    await health.probe()
  }
  assert.equal(probes(), 2)
  set('gone')
  for (let second = 0; second < 10; second += 1) {
    pass(1_000)
    await health.probe()
  }
  assert.equal(probes(), 2 + 6)
})

test('a probe that does not answer is down, and its late answer counts', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const bus = createBus()
  const answer = Promise.withResolvers<void>()
  const database = { run: () => answer.promise, always: true }
  const health = createDependencyHealth({ bus, dependencies: { database }, now: () => 0 })
  bus.emit('dependency:failed', { dependency: 'database', operation: 'claim', reason: 'no' })
  const fresh = health.fresh()
  const heard: string[] = []
  health.onSilent('database', () => heard.push('silent'))
  health.onSilent('database', () => heard.push('not any more'))()
  t.mock.timers.tick(3_000)
  assert.deepEqual((await fresh)[0]?.reason, 'It did not answer within 3000 ms.')
  assert.deepEqual([health.isSilent('database'), heard], [true, ['silent']])
  answer.resolve()
  await health.fresh()
  assert.deepEqual([health.isUp('database'), health.isSilent('database')], [true, false])
})

test('a dependency whose client gave up on a late probe is still silent, and one that refuses in time is not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let [probes, time] = [0, 0]
  const database = { run: async () => answers[probes++]?.promise, always: true }
  const health = createDependencyHealth({ bus: createBus(), dependencies: { database }, now: () => time })
  const silent = new Promise<void>((resolve) => void health.onSilent('database', resolve))
  time += 10_000
  void health.probe()
  t.mock.timers.tick(3_000)
  await silent
  answers[0]?.reject(new Error('The connection was lost.'))
  await new Promise(setImmediate)
  assert.deepEqual([health.isUp('database'), health.isSilent('database')], [false, true])
  const refused = health.probe()
  answers[1]?.reject(new Error('The database is starting.'))
  await refused
  assert.deepEqual([health.isUp('database'), health.isSilent('database')], [false, false])
})

test('an answer that came while the thread was blocked is no silence', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const answer = Promise.withResolvers<void>()
  const database = { run: () => answer.promise, always: true }
  let time = 0
  const health = createDependencyHealth({ bus: createBus(), dependencies: { database }, now: () => time })
  let heard = 0
  health.onSilent('database', () => {
    heard += 1
  })
  time += 10_000
  const fresh = health.probe()
  t.mock.timers.tick(3_000)
  answer.resolve()
  await fresh
  await new Promise(setImmediate)
  assert.deepEqual([health.isUp('database'), heard], [true, 0])
})

test('what has no probe is down from what failed to what worked', () => {
  const { health, told, failed, worked } = watching()
  failed('receive', 'kafka')
  failed('receive', 'kafka')
  assert.equal(health.isUp('kafka'), false)
  worked('receive', 'kafka')
  assert.equal(health.isUp('kafka'), true)
  assert.deepEqual(told, ['kafka down: receive refused', 'kafka up after 0'])
})
