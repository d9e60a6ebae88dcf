import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { createRuntimes } from './create-runtimes.ts'
import { createSandboxes } from './create-sandboxes.ts'
import { type FakeOptions, fakeRuntime, fakeTiming, never, python, works } from './fake.fixture.ts'

const process_: FakeOptions = { kind: 'process', isolation: 'namespaces', cost: 10 }
const docker: FakeOptions = { kind: 'docker', isolation: 'container', cost: 40 }
const gvisor: FakeOptions = { kind: 'gvisor', isolation: 'kernel', cost: 60 }

function setUp(...fakes: FakeOptions[]) {
  const timing = fakeTiming()
  const list = fakes.map(fakeRuntime)
  const runtimes = createRuntimes({ runtimes: list, timing, random: () => 0, pool: false })
  return { runtimes, timing, list }
}

function gone(): never {
  throw new ToolError('RUNTIME_UNAVAILABLE', 'The engine is unreachable.')
}

async function kindOf(runtimes: Runtimes, request: object = {}): Promise<string> {
  return (await runtimes.run({ program: python(''), ...request }, never)).runtime.kind
}

test('a runtime that becomes unavailable is replaced by the next that meets the floor, and used again when it is back', async () => {
  let isGone = true
  const { runtimes, timing, list } = setUp({ ...docker, onOpen: () => (isGone ? gone() : undefined) }, gvisor)
  const named: string[] = []
  const onRuntime = ({ kind }: { readonly kind: string }): void => void named.push(kind)
  assert.equal(await kindOf(runtimes, { floor: 'container', onRuntime }), 'gvisor')
  assert.deepEqual(named, ['docker', 'gvisor'])
  assert.equal(await kindOf(runtimes, { floor: 'container' }), 'gvisor')
  assert.equal(list[0]?.opens, 1, 'an unavailable runtime was tried although another one was ready')
  isGone = false
  await timing.advance(2_000)
  assert.equal(await kindOf(runtimes, { floor: 'container' }), 'docker')
})

test('no failure lets a request run below its floor, and the error is that of the runtime that was tried', async () => {
  const { runtimes, list } = setUp(process_, { ...docker, onOpen: gone })
  for (const request of [{ floor: 'container' }, { runtime: 'docker' }, { least: 'container' }]) {
    await assert.rejects(kindOf(runtimes, request), {
      code: 'RUNTIME_UNAVAILABLE',
      message: 'The engine is unreachable.',
    })
  }
  assert.equal(list[0]?.opens, 0)
  assert.equal(list[1]?.opens, 3, 'a runtime was tried twice by one request')
})

test('a program that began runs in no other runtime, whatever its sandbox throws', async () => {
  const { runtimes, list } = setUp({ ...docker, run: gone }, gvisor)
  await assert.rejects(kindOf(runtimes, { floor: 'container' }), { code: 'RUNTIME_UNAVAILABLE' })
  assert.deepEqual(
    list.map(({ opens }) => opens),
    [1, 0],
  )
})

test('a refusal that concerns one request alone does not make the runtime unavailable', async () => {
  const refuse = (): never => {
    throw new ToolError('RUNTIME_UNAVAILABLE', 'Not with these limits.', { retryable: false })
  }
  let [refuses, opens] = [true, 0]
  const onOpen = (): unknown => {
    opens += 1
    return refuses ? refuse() : undefined
  }
  const { runtimes } = setUp({ ...docker, onOpen }, gvisor)
  await assert.rejects(kindOf(runtimes, { floor: 'container' }), { code: 'RUNTIME_UNAVAILABLE' })
  refuses = false
  assert.equal(await kindOf(runtimes, { floor: 'container' }), 'docker')
  assert.equal(opens, 2)
})

test('a session opens in the next runtime too when the first is unavailable', async () => {
  const { runtimes } = setUp({ ...docker, onOpen: gone }, gvisor)
  const { runtime, sandbox } = await runtimes.open('python', { floor: 'container' }, never)
  assert.equal(runtime.kind, 'gvisor')
  await sandbox.dispose()
})

test('the measured start decides between runtimes that both meet the floor', async () => {
  const timing = fakeTiming()
  const list = [
    fakeRuntime({ ...docker, onOpen: () => timing.advance(900) }),
    fakeRuntime({ ...gvisor, onOpen: () => timing.advance(60) }),
    fakeRuntime(process_),
  ]
  const runtimes = createRuntimes({ runtimes: list, timing, random: () => 0, pool: false })
  for (const runtime of ['gvisor', 'gvisor', 'docker', 'docker']) await kindOf(runtimes, { runtime })
  assert.equal(await kindOf(runtimes, { floor: 'container' }), 'gvisor')
  assert.equal(await kindOf(runtimes), 'process')
})

test('explain gives a verdict on every runtime, by the same rule, and opens no sandbox', async () => {
  const unavailable = { available: false, reason: 'No engine.', remedy: 'Start it.' } as const
  const wasm: FakeOptions = { kind: 'wasm', isolation: 'wasm', cost: 1 }
  const { runtimes, list } = setUp(wasm, process_, { ...docker, probe: () => unavailable }, gvisor)
  const choice = await runtimes.explain({ kind: 'code', language: 'python' }, {}, never)
  assert.deepEqual([choice.chosen, choice.floor, choice.profile], ['process', 'namespaces', 'standard'])
  assert.deepEqual(
    choice.runtimes.map(({ kind, verdict }) => [kind, verdict]),
    [
      ['wasm', 'refused'],
      ['process', 'chosen'],
      ['docker', 'refused'],
      ['gvisor', 'spare'],
    ],
  )
  const [weak, , absent, spare] = choice.runtimes
  assert.match(weak?.reason ?? '', /isolation is wasm, and at least namespaces is required/)
  assert.deepEqual([absent?.reason, absent?.remedy], ['No engine.', 'Start it.'])
  assert.match(spare?.reason ?? '', /would serve, and process comes first/)
  assert.ok(list.every(({ opens }) => opens === 0))
  assert.equal(choice.chosen, await kindOf(runtimes))
})

test('explain says why no runtime would run a program, and rejects demands that contradict themselves', async () => {
  const { runtimes } = setUp(process_, docker)
  const code = { kind: 'code', language: 'python' } as const
  const none = await runtimes.explain(code, { floor: 'microvm' }, never)
  assert.equal(none.chosen, undefined)
  assert.ok(none.runtimes.every(({ verdict, remedy }) => verdict === 'refused' && remedy !== undefined))
  const ruby = await runtimes.explain({ kind: 'code', language: 'ruby' }, {}, never)
  assert.match(ruby.runtimes[0]?.reason ?? '', /"ruby" is not installed/)
  await assert.rejects(runtimes.explain(code, { profile: 'standart' }, never), { code: 'INPUT_INVALID' })
  await assert.rejects(runtimes.explain(code, { limits: { pids: -1 } }, never), { code: 'INPUT_INVALID' })
  const reach = { profile: 'hardened', network: { allow: ['https://a.test'] } }
  await assert.rejects(runtimes.explain(code, reach, never), { code: 'EGRESS_DENIED' })
})

test('explain of sandboxes names all thirteen kinds', async () => {
  const own = ['process', 'unsafe_host', 'wasm'].map((kind) =>
    fakeRuntime({ kind, isolation: kind === 'unsafe_host' ? 'none' : 'namespaces', probe: () => works }),
  )
  const sandboxes = createSandboxes({ use: own, pool: false })
  try {
    const { runtimes } = await sandboxes.explain({ kind: 'code', language: 'python' }, {}, never)
    assert.equal(new Set(runtimes.map(({ kind }) => kind)).size, 13)
    assert.match(runtimes.find(({ kind }) => kind === 'docker')?.reason ?? '', /is not configured/)
  } finally {
    await sandboxes.close()
  }
})
