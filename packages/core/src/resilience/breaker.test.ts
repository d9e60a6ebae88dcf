import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { type BreakerOptions, createBreaker, type Permit } from './breaker.ts'
import { ModelBreaker } from './breaker-model.fixture.ts'
import type { BreakerEvent } from './circuit.ts'

const start = 1_800_000_000_000
const limits = { windowMs: 1_000, failureRatio: 0.5, minCalls: 4, openMs: 200, maxOpenMs: 900, trialMs: 700 }

/** A breaker on a manual clock, without jitter. */
function setUp(options: BreakerOptions = {}) {
  const clock = { time: start }
  const events: BreakerEvent[] = []
  const breaker = createBreaker({
    ...limits,
    now: () => clock.time,
    random: () => 0,
    onEvent: (event) => events.push(event),
    ...options,
  })
  return { clock, events, breaker }
}

function isOpen(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'CIRCUIT_OPEN' && Number(error.details?.retryAfterMs) > 0
}

function fail(error: unknown = new ToolError('TIMEOUT', 'late')): never {
  throw error
}

test('the breaker equals a naive model after any sequence of calls, outcomes, restarts and remote changes', () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('enter' as const) }) },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant('end' as const),
        which: fc.nat(5),
        outcome: fc.constantFrom('success' as const, 'fault' as const, 'fault' as const, 'ignored' as const),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.oneof(fc.nat(400), fc.nat(3_000)) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('hold' as const),
        ms: fc.integer({ min: -100, max: 1_200 }),
        rests: fc.nat(6),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('close' as const) }) },
  )
  const seen = new Set<string>()
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
      const { clock, breaker: first, events } = setUp()
      let breaker = first
      const model = new ModelBreaker(limits, clock.time)
      const running: { permit: Permit; call: { era: number; trial: boolean } }[] = []
      for (const each of steps) {
        const before = { state: model.state, emitted: events.length }
        if (each.kind === 'pass') clock.time += each.ms
        else if (each.kind === 'hold') {
          breaker.hold(each.ms, each.rests)
          model.hold(each.ms, each.rests, clock.time)
        } else if (each.kind === 'close') {
          breaker.close()
          model.close(clock.time)
        } else if (each.kind === 'enter') {
          const call = model.enter(clock.time)
          if (call === undefined) assert.throws(() => breaker.enter(), isOpen)
          else running.push({ permit: breaker.enter(), call })
        } else if (each.kind === 'end') {
          const [ended] = running.splice(each.which % Math.max(1, running.length), 1)
          if (ended === undefined) continue
          assert.equal(ended.permit.trial, ended.call.trial)
          const { succeed, fault, leave } = bound(ended.permit)
          ;({ success: succeed, fault, ignored: leave })[each.outcome]()
          model.end(ended.call, each.outcome, clock.time)
        } else {
          const kept = JSON.parse(JSON.stringify(breaker))
          breaker = setUp({ now: () => clock.time, onEvent: (event) => events.push(event) }).breaker
          breaker.restore(kept)
          assert.deepEqual(JSON.parse(JSON.stringify(breaker)), kept)
          running.length = 0
          model.loseTrial(clock.time)
        }
        const { state, since, calls, failures, ...rest } = breaker.state
        assert.deepEqual({ state, since, calls, failures }, expected(model, clock.time))
        assert.equal(breaker.due, model.isDue(clock.time))
        assert.deepEqual(events.slice(before.emitted).map(lineOf), eventsOf(before.state, model, each.kind))
        if ('retryAt' in rest) assert.equal(rest.retryAt, model.retryAt)
        assert.ok(running.filter(({ call }) => call.trial && call.era === model.era).length <= 1)
        seen.add(state)
      }
    }),
    { numRuns: 300 },
  )
  assert.deepEqual([...seen].sort(), ['closed', 'open', 'trial'])
})

function lineOf({ elsewhere, ...event }: BreakerEvent): string {
  const streak = 'streak' in event ? ` ${event.streak}` : ''
  return `${event.kind}${streak}${elsewhere === true ? ' elsewhere' : ''}`
}

/** The events of a step: each change of state, marked when remote. A restart and a trial without an outcome emit none. */
function eventsOf(before: string, model: ModelBreaker, step: string): string[] {
  const { state } = model
  const changed = state !== before && step !== 'restart' && step !== 'pass'
  const from = step === 'hold' || step === 'close' ? ' elsewhere' : ''
  if (state === 'open' && before === 'trial' && model.retryAt === model.since) return []
  if (!changed) return []
  return [state === 'open' ? `opened ${model.rests}${from}` : `${state}${from}`]
}

function expected(model: ModelBreaker, time: number) {
  return { state: model.state, since: model.since, ...model.counts(time) }
}

function bound(permit: Permit) {
  return { succeed: () => permit.succeed(), fault: () => permit.fault(), leave: () => permit.leave() }
}

test('timeouts open the circuit, and later calls do not reach the backend', () => {
  const { breaker } = setUp()
  for (let call = 0; call < 4; call++) assert.throws(() => breaker.run(() => fail()), /late/)
  assert.throws(() => breaker.run(() => assert.fail('the backend was called')), isOpen)
  const { state, calls, failures, openMs } = breaker.state
  assert.deepEqual({ state, calls, failures, openMs }, { state: 'open', calls: 4, failures: 4, openMs: 200 })
})

test('invalid arguments, denials and cancelled calls never open the circuit', async () => {
  const { breaker } = setUp()
  const harmless = (['INPUT_INVALID', 'DENIED', 'RATE_LIMITED', 'CANCELLED', 'OUTPUT_INVALID'] as const).map(
    (code) => new ToolError(code, 'no'),
  )
  for (let round = 0; round < 20; round++) {
    for (const error of harmless) assert.throws(() => breaker.run(() => fail(error)))
    await assert.rejects(breaker.run(() => Promise.reject(new DOMException('gone', 'AbortError'))))
  }
  assert.equal(breaker.state.state, 'closed')
  assert.equal(breaker.state.calls, 0)
})

test('when the open period ends, exactly one of many concurrent calls is admitted as the trial', async () => {
  const { breaker, clock } = setUp()
  for (let call = 0; call < 4; call++) breaker.enter().fault()
  clock.time += 200
  const trial = Promise.withResolvers<string>()
  let admitted = 0
  const calls = Array.from({ length: 20 }, async () =>
    breaker.run(() => {
      admitted += 1
      return trial.promise
    }),
  )
  trial.resolve('well')
  const ended = await Promise.allSettled(calls)
  assert.equal(admitted, 1)
  assert.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1)
  assert.equal(breaker.state.state, 'closed')
})

test('while a trial runs, other calls get a short retryAfterMs, not the trial timeout', () => {
  const { breaker, clock } = setUp({ trialMs: 3_600_000 })
  for (let call = 0; call < 4; call++) breaker.enter().fault()
  assert.throws(() => breaker.enter(), { details: { retryAfterMs: 200 } })
  clock.time += 200
  breaker.enter()
  assert.throws(() => breaker.enter(), { details: { retryAfterMs: 1_000 } })
})

test('after a cancelled trial the next call becomes the trial', async () => {
  const { breaker, clock } = setUp()
  for (let call = 0; call < 4; call++) breaker.enter().fault()
  clock.time += 200
  await assert.rejects(
    breaker.run(async () => fail(new ToolError('CANCELLED', 'enough'))),
    /enough/,
  )
  assert.equal(
    breaker.run(() => 'well'),
    'well',
  )
  assert.equal(breaker.state.state, 'closed')
})

test('a trial that does not end within trialMs counts as failed, and its late success is ignored', () => {
  const { breaker, clock } = setUp()
  for (let call = 0; call < 4; call++) breaker.enter().fault()
  clock.time += 200
  const lost = breaker.enter()
  clock.time += limits.trialMs
  assert.throws(() => breaker.enter(), isOpen)
  lost.succeed()
  assert.equal(breaker.state.state, 'open')
  clock.time += 400
  breaker.enter().succeed()
  assert.equal(breaker.state.state, 'closed')
})

test('the open period doubles up to maxOpenMs and resets after maxOpenMs without an opening', () => {
  const { breaker, clock } = setUp()
  const rests: number[] = []
  const open = (): void => {
    for (let call = 0; call < 4; call++) breaker.enter().fault()
    rests.push(breaker.state.openMs)
  }
  const tryAgain = (): Permit => {
    clock.time += breaker.state.openMs
    return breaker.enter()
  }
  open()
  for (let trial = 0; trial < 3; trial++) {
    tryAgain().fault()
    rests.push(breaker.state.openMs)
  }
  tryAgain().succeed()
  clock.time += limits.maxOpenMs - 1
  open()
  tryAgain().succeed()
  clock.time += limits.maxOpenMs
  open()
  assert.deepEqual(rests, [200, 400, 800, 900, 900, 200])
})

test('jitter shortens the open period by at most half', () => {
  for (const [random, openMs] of [
    [0, 200],
    [0.5, 150],
    [1, 100],
  ] as const) {
    const { breaker } = setUp({ random: () => random })
    for (let call = 0; call < 4; call++) breaker.enter().fault()
    assert.equal(breaker.state.openMs, openMs)
  }
})

test('a remote opening opens the circuit once, only ever extends the open period, and is emitted as remote', () => {
  const { breaker, clock, events } = setUp()
  const early = breaker.enter()
  for (const restMs of [300, 300, 100, -5]) breaker.hold(restMs, 2)
  assert.throws(() => breaker.enter(), { details: { retryAfterMs: 300 } })
  early.fault()
  breaker.hold(10 * limits.maxOpenMs, 2)
  assert.throws(() => breaker.enter(), { details: { retryAfterMs: limits.maxOpenMs } })
  clock.time += limits.maxOpenMs
  breaker.enter().fault()
  assert.equal(breaker.state.openMs, 800)
  breaker.close()
  breaker.close()
  assert.equal(breaker.state.failures, 0)
  assert.deepEqual(events.map(lineOf), ['opened 2 elsewhere', 'trial', 'opened 3', 'closed elsewhere'])
})

test('a remote open period that has ended makes a closed circuit due for a trial, and a remote opening does not end a running trial', () => {
  const { breaker, clock } = setUp()
  breaker.hold(-1_000, 1)
  assert.equal(breaker.due, true)
  const trial = breaker.enter()
  breaker.hold(500, 4)
  assert.equal(breaker.state.state, 'trial')
  clock.time += 100
  trial.succeed()
  assert.equal(breaker.state.state, 'closed')
})

test('a fault of a trial is ignored after a remote close', () => {
  const { breaker } = setUp()
  breaker.hold(0, 1)
  const trial = breaker.enter()
  breaker.close()
  trial.fault()
  assert.deepEqual([breaker.state.state, breaker.state.failures], ['closed', 0])
})

test('retryAfterMs grows with the age of a running trial', () => {
  const { breaker, clock } = setUp({ trialMs: 3_600_000 })
  breaker.hold(0, 1)
  breaker.enter()
  clock.time += 20_000
  assert.throws(() => breaker.enter(), { details: { retryAfterMs: 20_000 } })
})

test('a permit counts once, and only in the state that issued it', () => {
  const { breaker, clock } = setUp()
  const early = breaker.enter()
  const twice = breaker.enter()
  for (let time = 0; time < 9; time++) twice.fault()
  assert.equal(breaker.state.failures, 1)
  for (let call = 0; call < 3; call++) breaker.enter().fault()
  clock.time += 200
  const trial = breaker.enter()
  early.succeed()
  assert.equal(breaker.state.state, 'trial')
  trial.succeed()
  early.fault()
  assert.equal(breaker.state.failures, 0)
})

test('each change of state is emitted once, and a listener that throws changes nothing', (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => undefined)
  const { breaker, clock, events } = setUp()
  for (let call = 0; call < 4; call++) breaker.enter().fault()
  clock.time += 200
  breaker.enter().fault()
  clock.time += 400
  breaker.enter().succeed()
  assert.deepEqual(
    events.map(({ kind, at }) => `${kind} ${at - start}`),
    ['opened 0', 'trial 200', 'opened 200', 'trial 600', 'closed 600'],
  )
  const noisy = setUp({ onEvent: () => fail() }).breaker
  for (let call = 0; call < 4; call++) noisy.enter().fault()
  assert.equal(noisy.state.state, 'open')
  assert.equal(warn.mock.callCount(), 1)
})

test('a synchronous call stays synchronous, and a wrapped function keeps its arguments and its result', async () => {
  const { breaker } = setUp()
  const add = breaker.wrap((a: number, b: number) => a + b)
  assert.equal(add(2, 3), 5)
  const later = breaker.wrap(async (a: number) => a * 2)
  assert.equal(await later(4), 8)
  assert.equal(breaker.state.calls, 2)
})

test('a lazy thenable is started once', async () => {
  const { breaker } = setUp()
  let started = 0
  const lazy: PromiseLike<string> = {
    then: (resolve, reject) => {
      started += 1
      return Promise.resolve('done').then(resolve, reject)
    },
  }
  assert.equal(await breaker.run(() => lazy), 'done')
  assert.equal(started, 1)
})

test('the outcome function classifies errors, and an error it throws counts as a fault', () => {
  const picky = setUp({ outcome: (error) => (error === 'bad' ? 'fault' : 'ignored') }).breaker
  for (let call = 0; call < 9; call++) assert.throws(() => picky.run(() => fail('fine')))
  assert.equal(picky.state.calls, 0)
  const broken = setUp({ outcome: () => fail('own fault') }).breaker
  for (let call = 0; call < 4; call++) assert.throws(() => broken.run(() => fail('first')), /first/)
  assert.equal(broken.state.state, 'open')
})

test('a restored state with times in the future keeps the circuit open for maxOpenMs at most', () => {
  const { breaker, clock } = setUp()
  breaker.restore({ state: 'open', since: start * 2, streak: 3, openMs: 1e9, window: [], retryAt: start * 2 })
  assert.throws(() => breaker.enter(), isOpen)
  clock.time += limits.maxOpenMs
  breaker.enter().succeed()
  assert.equal(breaker.state.state, 'closed')
})

test('restore refuses an invalid state and changes nothing', () => {
  const { breaker } = setUp()
  breaker.enter().fault()
  const sound = JSON.parse(JSON.stringify(breaker))
  const wrong: unknown[] = [
    ...[null, [], 'closed', 1, {}, { ...sound, state: 'trial' }, { ...sound, retryAt: 1 }, { ...sound, extra: 1 }],
    ...[
      { ...sound, since: Number.NaN },
      { ...sound, streak: 0.5 },
      { ...sound, openMs: -1 },
      { ...sound, window: {} },
    ],
    ...[
      { ...sound, window: [[1, 1, 2]] },
      { ...sound, window: Array.from({ length: 11 }, (_, at) => [at, 1, 0]) },
    ],
    ...[
      {
        ...sound,
        window: [
          [5, 1, 0],
          [5, 1, 0],
        ],
      },
      { ...sound, window: [[1, Infinity, 0]] },
    ],
    { ...sound, state: 'open' },
    JSON.parse('{"__proto__": {"state": "closed"}, "since": 1}'),
  ]
  for (const json of wrong) {
    assert.throws(() => breaker.restore(json), { code: 'CONFIG_INVALID' }, JSON.stringify(json))
  }
  assert.deepEqual(JSON.parse(JSON.stringify(breaker)), sound)
})

test('invalid options are refused, all in one error', () => {
  const wrong = { failureRatio: 0, minCalls: 1.5, openMs: Number.NaN, windowsMs: 5 } as BreakerOptions
  assert.throws(
    () => createBreaker(wrong),
    (error) => ToolError.is(error) && error.code === 'CONFIG_INVALID' && error.details?.issues?.length === 4,
  )
})

test('without options the breaker uses the system clock', async () => {
  const breaker = createBreaker({ name: 'weather' })
  for (let call = 0; call < 5; call++) await assert.rejects(breaker.run(() => Promise.reject(new Error('reset'))))
  assert.throws(
    () => breaker.enter(),
    /^ToolError: weather failed too often and its circuit is open; try again in \d+ ms\.$/,
  )
})
