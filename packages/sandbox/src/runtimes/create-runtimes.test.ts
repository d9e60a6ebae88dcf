import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { type ErrorCode, ToolError } from '@gantry/contract'
import type { Outcome } from '@gantry/core/internal/runtimes/runtime'
import { memoryTracer } from '../../../core/src/tracing/memory-tracer.fixture.ts'
import { defaultLimits } from '../selection/limits.ts'
import { createRuntimes } from './create-runtimes.ts'
import {
  type FakeOptions,
  fakeRuntime,
  fakeTiming,
  never,
  printed,
  python,
  settled,
  untilAborted,
} from './fake.fixture.ts'
import type { RuntimesOptions } from './options.ts'

function setUp(options: Partial<RuntimesOptions> = {}, ...fakes: FakeOptions[]) {
  const timing = fakeTiming()
  const list = (fakes.length > 0 ? fakes : [{ kind: 'process' }]).map(fakeRuntime)
  const runtimes = createRuntimes({ runtimes: list, timing, random: () => 0, pool: false, ...options })
  const [first = assert.fail()] = list
  return { runtimes, timing, list, first }
}

const wasm: FakeOptions = { kind: 'wasm', isolation: 'wasm', cost: 1 }
const process_: FakeOptions = { kind: 'process', isolation: 'namespaces', cost: 2 }
const host: FakeOptions = { kind: 'unsafe_host', isolation: 'none', cost: 0 }

async function codeOf(promise: Promise<unknown>): Promise<ErrorCode> {
  const error = await promise.then(
    () => assert.fail('it ran'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error.code
}

function text({ outcome }: { readonly outcome: Outcome }): string {
  return new TextDecoder().decode(outcome.stdout.bytes)
}

test('a program runs in its own sandbox, which is disposed; the answer names the runtime, attempts and limits', async () => {
  const { runtimes, first } = setUp()
  const answer = await runtimes.run({ program: python('hello'), env: { A: '1' }, limits: { pids: 5 } }, never)
  assert.equal(text(answer), 'hello')
  assert.deepEqual(answer.runtime, { kind: 'process', isolation: 'namespaces' })
  assert.equal(answer.attempts, 1)
  assert.deepEqual(answer.limits, { ...defaultLimits, pids: 5 })
  const [sandbox] = first.sandboxes
  assert.deepEqual(sandbox?.spec, { limits: answer.limits, network: 'none', language: 'python' })
  assert.deepEqual(sandbox?.jobs, [{ program: python('hello'), env: { A: '1' } }])
  assert.deepEqual(first.live(), [])
})

test('the configured floor of a profile also applies to requests that name a runtime instead', async () => {
  const strong = Object.fromEntries(
    ['standard', 'wasm', 'dev', 'hardened'].map((name) => [name, { floor: 'microvm' as const }]),
  )
  const { runtimes } = setUp({ profiles: strong }, process_, wasm, host)
  for (const runtime of ['process', 'wasm']) {
    const request = { program: { kind: 'code', language: 'javascript', code: '' }, runtime } as const
    await assert.rejects(runtimes.run(request, never), { code: 'RUNTIME_UNAVAILABLE' })
  }
})

test('a request without profile, floor or runtime gets a runtime that meets the standard profile, not the cheapest', async () => {
  const { runtimes } = setUp({}, process_, wasm, host)
  const kindFor = async (asked: object): Promise<string> =>
    (await runtimes.run({ program: { kind: 'code', language: 'javascript', code: '' }, ...asked }, never)).runtime.kind
  assert.equal(await kindFor({}), 'process')
  assert.equal(await kindFor({ profile: 'standard' }), 'process')
  assert.equal(await kindFor({ profile: 'hardened' }), 'process')
  assert.equal(await kindFor({ profile: 'wasm' }), 'wasm')
  assert.equal(await kindFor({ profile: 'dev' }), 'wasm')
  assert.equal(await kindFor({ profile: 'dev', floor: 'namespaces' }), 'process')
  assert.equal(await kindFor({ profile: 'standard', floor: 'none' }), 'process')
  assert.equal(await kindFor({ floor: 'wasm' }), 'wasm')
  assert.equal(await kindFor({ floor: 'none' }), 'wasm')
  assert.equal(await kindFor({ runtime: 'wasm' }), 'wasm')
  for (const refused of [
    { profile: 'standard', runtime: 'wasm' },
    { runtime: 'wasm', floor: 'namespaces' },
    { runtime: 'unsafe_host' },
    { profile: 'dev', runtime: 'unsafe_host' },
    { floor: 'container' },
    { runtime: 'docker' },
  ] as const) {
    const asked = { program: python(''), ...refused }
    assert.equal(await codeOf(runtimes.run(asked, never)), 'RUNTIME_UNAVAILABLE', JSON.stringify(refused))
  }
})

test('the least isolation that the host demands applies to every profile, runtime or floor of a request', async () => {
  const container: FakeOptions = { kind: 'docker', isolation: 'container', cost: 3 }
  const { runtimes } = setUp({ profiles: { dev: { unsafeHost: true } } }, wasm, process_, host, container)
  const asked = { program: python('') }
  const kindOf = async (request: object) => (await runtimes.run({ ...asked, ...request }, never)).runtime.kind
  for (const named of [{}, { profile: 'dev' }, { floor: 'wasm' as const }]) {
    assert.equal(await kindOf({ ...named, least: 'container' }), 'docker', JSON.stringify(named))
  }
  assert.equal(await kindOf({ least: 'none' }), 'process')
  assert.equal(await kindOf({ floor: 'wasm', least: 'none' }), 'wasm')
  for (const runtime of ['wasm', 'process']) {
    const weaker = { ...asked, runtime, least: 'container' as const }
    assert.equal(await codeOf(runtimes.run(weaker, never)), 'RUNTIME_UNAVAILABLE', runtime)
  }
  const bare = { ...asked, profile: 'dev', runtime: 'unsafe_host' }
  assert.equal(await kindOf(bare), 'unsafe_host')
  assert.equal(await codeOf(runtimes.run({ ...bare, least: 'wasm' }, never)), 'RUNTIME_UNAVAILABLE')
})

test('the unsafe_host runtime runs only when a configured profile and the call both select it', async () => {
  const { runtimes, first } = setUp({ profiles: { dev: { unsafeHost: true } } }, host, process_)
  const { runtime } = await runtimes.run({ program: python(''), profile: 'dev', runtime: 'unsafe_host' }, never)
  assert.deepEqual(runtime, { kind: 'unsafe_host', isolation: 'none' })
  assert.equal((await runtimes.run({ program: python(''), profile: 'dev' }, never)).runtime.kind, 'process')
  assert.equal(
    await codeOf(runtimes.run({ program: python(''), runtime: 'unsafe_host' }, never)),
    'RUNTIME_UNAVAILABLE',
  )
  assert.equal(first.opens, 1)
})

test('a profile applies its limits, its strictness and its network setting', async () => {
  const { runtimes, first } = setUp({
    limits: { pids: 7 },
    maxLimits: { wallMs: 9_000 },
    profiles: { hardened: { limits: { memoryBytes: 67_108_864 } } },
  })
  const { limits } = await runtimes.run({ program: python(''), profile: 'hardened' }, never)
  assert.deepEqual(limits, { ...defaultLimits, pids: 7, wallMs: 9_000, memoryBytes: 67_108_864, diskBytes: 33_554_432 })
  assert.equal(first.sandboxes[0]?.spec.strict, true)
  const network = { allow: ['https://api.example.com'] }
  assert.equal(
    await codeOf(runtimes.run({ program: python(''), profile: 'hardened', network }, never)),
    'EGRESS_DENIED',
  )
  await runtimes.run({ program: python(''), network: { allow: [] }, profile: 'hardened' }, never)
  await runtimes.run({ program: python(''), network }, never)
  assert.deepEqual(
    first.sandboxes.map((sandbox) => sandbox.spec.network),
    ['none', 'none', network],
  )
})

test('an invalid request is refused with its path before a sandbox starts', async () => {
  const { runtimes, first } = setUp()
  const wrong: [object, RegExp][] = [
    [{ profile: 'hardend' }, /\/profile "hardend" is not a profile \(did you mean "hardened"\?\)/],
    [{ floor: 'steel' }, /\/floor "steel" must be one of none, wasm/],
    [{ limits: { wallMs: 0 } }, /\/limits\/wallMs must be a whole number from 1 to 3600000/],
    [{ profile: '__proto__' }, /is not a profile/],
  ]
  for (const [asked, message] of wrong) {
    await assert.rejects(runtimes.run({ program: python(''), ...asked }, never), { code: 'INPUT_INVALID', message })
  }
  assert.deepEqual([first.probes, first.opens], [0, 0])
})

test('invalid options are refused together, each with its path', () => {
  const runtimes = [fakeRuntime({ kind: 'process' }), fakeRuntime({ kind: 'process' })]
  const wrong = {
    runtimes,
    profile: {},
    limits: { wallMs: 20 },
    maxLimits: { wallMs: 10, pids: 0 },
    pool: { max: 0, mx: 3 },
    profiles: { standard: { floor: 'none' } },
  }
  assert.throws(
    () => createRuntimes(wrong as unknown as RuntimesOptions),
    (error) => {
      assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID')
      assert.deepEqual(
        error.details?.issues?.map(({ path, message }) => `${path} ${message}`),
        [
          '/profile is not an option (did you mean "profiles"?)',
          '/pool/mx is not an option (did you mean "max"?)',
          '/pool/max must be a whole number from 1 to 1024',
          '/runtimes/1 is a second runtime called process',
          '/maxLimits/pids must be a whole number from 1 to 4194304',
          '/limits/wallMs must be a whole number from 1 to 10',
          '/profiles/standard/floor must not be below namespaces',
        ],
      )
      return true
    },
  )
  assert.throws(() => createRuntimes({ runtimes: [], pool: { min: 5 } }), /\/pool\/min must be at most max \(4\)/)
})

test('a failed sandbox start is attempted three times; a failed run is not retried', async () => {
  let failures = 2
  const { runtimes, first } = setUp(
    {},
    {
      kind: 'process',
      onOpen: () => {
        if (failures-- > 0) throw new Error('no memory')
      },
    },
  )
  assert.equal((await runtimes.run({ program: python('') }, never)).attempts, 3)
  failures = 3
  await assert.rejects(runtimes.run({ program: python('') }, never), {
    code: 'SANDBOX_INIT_FAILED',
    details: { runtime: 'process', attempts: 3, reason: 'The sandbox did not start.' },
  })
  assert.equal(first.opens, 6)
  const breaking = setUp(
    {},
    {
      run: () => {
        throw new ToolError('BACKEND_FAILED', 'the sandbox broke')
      },
    },
  )
  assert.equal(await codeOf(breaking.runtimes.run({ program: python('') }, never)), 'BACKEND_FAILED')
  assert.deepEqual([breaking.first.opens, breaking.first.live()], [1, []])
})

test('a warm sandbox that fails before its program starts is replaced by a new one, not by another warm one', async () => {
  let failures = 1
  const { runtimes, first, timing } = setUp(
    { pool: { min: 2 } },
    {
      run: () => {
        if (failures-- > 0) throw new ToolError('SANDBOX_INIT_FAILED', 'it was dead')
        return printed('well')
      },
    },
  )
  failures = 0
  await runtimes.run({ program: python('') }, never)
  await timing.advance(100)
  const waiting = first.live()
  failures = 1
  const answer = await runtimes.run({ program: python('') }, never)
  assert.deepEqual([answer.attempts, text(answer)], [2, 'well'])
  assert.deepEqual(
    waiting.map(({ jobs, disposed }) => [jobs.length, disposed]),
    [
      [1, true],
      [0, false],
    ],
  )
  await runtimes.close()
})

test('an aborted run rejects with the reason of its signal, after the sandbox is disposed', async () => {
  const gate = Promise.withResolvers<void>()
  const { runtimes, first } = setUp({}, { run: (_, signal) => untilAborted(signal), onDispose: () => gate.promise })
  const controller = new AbortController()
  const reason = new Error('gone')
  let heard = false
  const run = runtimes.run({ program: python('') }, controller.signal).finally(() => {
    heard = true
  })
  await settled()
  controller.abort(reason)
  await settled()
  assert.equal(heard, false)
  gate.resolve()
  await assert.rejects(run, (error) => error === reason)
  assert.deepEqual(first.live(), [])
  await assert.rejects(runtimes.run({ program: python('') }, controller.signal), (error) => error === reason)
  assert.equal(first.opens, 1)
})

test('a run leaves no listener on the signal of its caller', async () => {
  const { signal } = new AbortController()
  const { runtimes } = setUp()
  for (let count = 0; count < 3; count++) await runtimes.run({ program: python('') }, signal)
  await codeOf(runtimes.run({ program: python(''), profile: 'none' }, signal))
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('a run aborted while its sandbox opens leaves no sandbox', async () => {
  const gate = Promise.withResolvers<void>()
  const { runtimes, first } = setUp({}, { onOpen: () => gate.promise })
  const controller = new AbortController()
  const run = runtimes.run({ program: python('') }, controller.signal)
  await settled()
  controller.abort(new Error('gone'))
  gate.resolve()
  await assert.rejects(run, /gone/)
  assert.deepEqual(first.live(), [])
})

test('a runtime is probed once for concurrent runs, and not before the first run', async () => {
  const { runtimes, list } = setUp({}, wasm, process_)
  assert.deepEqual(
    list.map(({ probes }) => probes),
    [0, 0],
  )
  await Promise.all(Array.from({ length: 50 }, () => runtimes.run({ program: python('') }, never)))
  assert.deepEqual(
    list.map(({ probes }) => probes),
    [0, 1],
  )
})

test('the runtime list reports availability, limits, breaches and the reason for each runtime', async () => {
  const broken = {
    available: false,
    reason: 'An attack got through.',
    remedy: 'Do not use it.',
    breached: ['mount'],
  } as const
  const { runtimes } = setUp({}, process_, { ...wasm, probe: () => broken })
  assert.deepEqual(await runtimes.list(never), [
    {
      kind: 'process',
      available: true,
      isolation: 'namespaces',
      version: '1.0',
      startMs: 5,
      limits: { wallMs: 'timer' },
      languages: ['python', 'javascript'],
      attacks: ['read a secret of the host'],
      breached: [],
    },
    {
      kind: 'wasm',
      available: false,
      isolation: 'wasm',
      version: null,
      startMs: null,
      limits: {},
      languages: [],
      attacks: [],
      breached: ['mount'],
      reason: 'An attack got through.',
      remedy: 'Do not use it.',
    },
  ])
})

test('by default the pool keeps warm sandboxes for frequent runs, and each is used once', async () => {
  const timing = fakeTiming()
  const runtime = fakeRuntime({ kind: 'process' })
  const runtimes = createRuntimes({ runtimes: [runtime], timing })
  for (let count = 0; count < 6; count++) {
    await runtimes.run({ program: python(String(count)) }, never)
    await timing.advance(50)
  }
  const used = runtime.sandboxes.filter(({ jobs }) => jobs.length === 1)
  assert.equal(used.length, 6)
  assert.ok(used.every(({ disposed }) => disposed))
  assert.ok(runtime.live().length > 0, 'none waits')
  await runtimes.close()
  assert.deepEqual(runtime.live(), [])
  assert.equal(timing.pending, 0)
})

test('closing closes a runtime after the last of its sandboxes is disposed', async () => {
  const gate = Promise.withResolvers<void>()
  const { runtimes, first } = setUp({}, { run: (_, signal) => untilAborted(signal), onDispose: () => gate.promise })
  const run = codeOf(runtimes.run({ program: python('') }, never))
  await settled()
  const closing = runtimes.close()
  await settled()
  assert.equal(first.closed, false)
  gate.resolve()
  await closing
  assert.equal(first.closed, true)
  assert.equal(await run, 'CANCELLED')
})

test('closing cancels running programs, waits for them and closes the runtimes; later runs are refused', async () => {
  const { runtimes, first } = setUp({}, { run: (_, signal) => untilAborted(signal) })
  const run = codeOf(runtimes.run({ program: python('') }, never))
  await settled()
  const closing = runtimes.close()
  assert.equal(runtimes.close(), closing)
  await closing
  assert.equal(await run, 'CANCELLED')
  assert.deepEqual([first.closed, first.live()], [true, []])
  assert.equal(await codeOf(runtimes.run({ program: python('') }, never)), 'RUNTIME_UNAVAILABLE')
})

test('a failed dispose of a sandbox does not change the outcome of its program', async () => {
  const { runtimes } = setUp(
    {},
    {
      onDispose: () => {
        throw new Error('stuck')
      },
    },
  )
  assert.equal(text(await runtimes.run({ program: python('done') }, never)), 'done')
})

test('load reports the numbers of running and waiting sandboxes', async () => {
  const { runtimes } = setUp({}, { run: (_, signal) => untilAborted(signal) })
  assert.deepEqual(runtimes.load(), { running: 0, waiting: 0 })
  const stop = new AbortController()
  const runs = [1, 2].map(() => codeOf(runtimes.run({ program: python('') }, stop.signal)))
  assert.deepEqual(runtimes.load(), { running: 2, waiting: 0 })
  stop.abort(new ToolError('CANCELLED', 'Enough.'))
  await Promise.all(runs)
  assert.deepEqual(runtimes.load(), { running: 0, waiting: 0 })
})

test('each sandbox start and each run is a span, and a failed start is a failed span', async () => {
  const tracer = memoryTracer()
  const failures = [new ToolError('SANDBOX_INIT_FAILED', 'No room.')]
  const onOpen = (): void => {
    const failure = failures.pop()
    if (failure !== undefined) throw failure
  }
  const { runtimes, timing } = setUp({}, { onOpen })
  const span = tracer.start('above', undefined)
  const run = runtimes.run({ program: python('hello'), span }, never)
  await timing.advance(10_000)
  assert.equal((await run).attempts, 2)
  const noted = tracer.spans.slice(1).map(({ name, code, ends }) => `${name} ${code ?? 'ok'} ${ends}`)
  assert.deepEqual(noted, ['sandbox.start SANDBOX_INIT_FAILED 1', 'sandbox.start ok 1', 'sandbox.run ok 1'])
})
