import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBus } from './bus.ts'
import { createDependencyHealth } from './dependency-health.ts'

/** A database with a scripted probe, a broker without a probe, and a manual clock. */
function watching() {
  const bus = createBus()
  const events: string[] = []
  bus.on('dependency:down', ({ dependency, reason }) => events.push(`${dependency} down: ${reason}`))
  bus.on('dependency:up', ({ dependency, downMs }) => events.push(`${dependency} up after ${downMs}`))
  let failure: string | undefined
  let probes = 0
  let time = 0
  const run = async (): Promise<void> => {
    probes += 1
    if (failure !== undefined) throw new Error(failure)
  }
  const health = createDependencyHealth({
    bus,
    dependencies: { database: { run, always: true }, kafka: null },
    now: () => time,
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
  return { health, events, failed, worked, set, pass, probes: () => probes, isUp: () => health.isUp('database') }
}

test('a read-only database is down until its probe can write, with or without calls', async () => {
  const { health, events, set, pass, isUp } = watching()
  set('read-only')
  pass(2_000)
  assert.equal(health.current()[0]?.up, true, 'current() does not wait for a probe')
  await health.probe()
  const [database] = health.current()
  assert.deepEqual([database?.up, database?.reason, isUp()], [false, 'read-only', false])
  set(undefined)
  pass(1_000)
  await health.probe()
  assert.deepEqual([isUp(), events], [true, ['database down: read-only', 'database up after 1000']])
})

test('one failed operation runs the probe at once, and a probe that works keeps the dependency up', async () => {
  const { health, events, failed, probes, isUp } = watching()
  failed('submit')
  await health.probe()
  assert.deepEqual([probes(), isUp(), events], [1, true, []])
})

test('a dependency is up again with its probe, however many operations failed together with it', async () => {
  const { health, failed, set, pass, isUp } = watching()
  set('gone')
  for (let n = 0; n < 30; n += 1) failed('submit')
  await health.probe()
  assert.equal(isUp(), false)
  for (let n = 0; n < 30; n += 1) failed('submit')
  set(undefined)
  pass(1_000)
  await health.probe()
  assert.equal(isUp(), true)
})

test('an operation that fails repeatedly takes the dependency down although its probe works, until it succeeds', async () => {
  const { health, failed, worked, pass, isUp } = watching()
  for (let n = 0; n < 3; n += 1) {
    failed('submit')
    await health.probe()
    pass(1_000)
  }
  worked('claim')
  assert.equal(isUp(), false)
  pass(2_000)
  await health.probe()
  assert.equal(isUp(), true, 'the dependency stays down for ever')
  failed('submit')
  assert.equal(isUp(), false)
  worked('submit')
  assert.equal(isUp(), true)
})

test('the probe runs at its interval while the dependency is up, and each time while it is down', async () => {
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

test('a dependency is down and unresponsive when its probe times out, and up with the late answer', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const bus = createBus()
  const answer = Promise.withResolvers<void>()
  const database = { run: () => answer.promise, always: true }
  const health = createDependencyHealth({ bus, dependencies: { database }, now: () => 0 })
  bus.emit('dependency:failed', { dependency: 'database', operation: 'claim', reason: 'no' })
  const probed = health.probe()
  const heard: string[] = []
  health.onUnresponsive('database', () => heard.push('unresponsive'))
  health.onUnresponsive('database', () => heard.push('not any more'))()
  t.mock.timers.tick(3_000)
  await probed
  assert.deepEqual(health.current()[0]?.reason, 'It did not answer within 3000 ms.')
  assert.deepEqual([health.isUnresponsive('database'), heard], [true, ['unresponsive']])
  answer.resolve()
  await health.probe()
  assert.deepEqual([health.isUp('database'), health.isUnresponsive('database')], [true, false])
})

test('a late rejection of the probe leaves the dependency unresponsive, and one in time does not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let [probes, time] = [0, 0]
  const database = { run: async () => answers[probes++]?.promise, always: true }
  const health = createDependencyHealth({ bus: createBus(), dependencies: { database }, now: () => time })
  const silent = new Promise<void>((resolve) => void health.onUnresponsive('database', resolve))
  time += 10_000
  void health.probe()
  t.mock.timers.tick(3_000)
  await silent
  answers[0]?.reject(new Error('The connection was lost.'))
  await new Promise(setImmediate)
  assert.deepEqual([health.isUp('database'), health.isUnresponsive('database')], [false, true])
  const refused = health.probe()
  answers[1]?.reject(new Error('The database is starting.'))
  await refused
  assert.deepEqual([health.isUp('database'), health.isUnresponsive('database')], [false, false])
})

test('an answer that arrived while the event loop was blocked does not count as a timeout', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const answer = Promise.withResolvers<void>()
  const database = { run: () => answer.promise, always: true }
  let time = 0
  const health = createDependencyHealth({ bus: createBus(), dependencies: { database }, now: () => time })
  let heard = 0
  health.onUnresponsive('database', () => {
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

test('a dependency without a probe is down from a failed operation until one succeeds', () => {
  const { health, events, failed, worked } = watching()
  failed('receive', 'kafka')
  failed('receive', 'kafka')
  assert.equal(health.isUp('kafka'), false)
  worked('receive', 'kafka')
  assert.equal(health.isUp('kafka'), true)
  assert.deepEqual(events, ['kafka down: receive refused', 'kafka up after 0'])
})
