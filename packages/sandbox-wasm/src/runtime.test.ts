import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { threadAttacks } from './guest/self-test.ts'
import { createBench, limits } from './run.fixture.ts'
import { createWasmRuntime } from './wasm.ts'

const bench = createBench()
const { runtime } = bench
const signal = AbortSignal.timeout(60_000)
const spec: SandboxSpec = { language: 'javascript', limits, network: 'none' }

test('the probe starts the runtime, runs the self-test attacks and reports the enforced limits', async () => {
  const probe = await runtime.probe(signal)
  assert.ok(probe.available, JSON.stringify(probe))
  assert.deepEqual(probe.languages, ['javascript', 'typescript', 'python'])
  assert.deepEqual(
    probe.attacks,
    threadAttacks.map(({ name }) => name),
  )
  assert.match(probe.version, /quickjs-ng .* pyodide \d/)
  assert.deepEqual(Object.keys(probe.limits).sort(), Object.keys(limits).sort())
  assert.ok(probe.startMs > 0)
})

test('every self-test attack counts as a breach when its outcome does not prove it blocked', async () => {
  const outcome = (await bench.code('javascript', 'return 1')).outcome
  for (const attack of threadAttacks) assert.equal(attack.held(outcome), false, attack.name)
})

test('the wasm runtime refuses an unsupported spec with a reason and a remedy, and does not open it', async () => {
  const refused: readonly Partial<SandboxSpec>[] = [
    { language: 'bash' },
    { language: 'ruby' },
    { network: { allow: ['https://example.com'] } },
    { strict: true },
    { language: 'python', limits: { ...limits, memoryBytes: 33_554_432 } },
  ]
  for (const part of refused) {
    const { reason = '', remedy = '' } = runtime.refuses({ ...spec, ...part }) ?? {}
    assert.ok(reason !== '' && remedy !== '', JSON.stringify(part))
    await assert.rejects(runtime.open({ ...spec, ...part }, signal), { code: 'RUNTIME_UNAVAILABLE', effect: 'none' })
  }
  const { language: _, ...wasi } = spec
  assert.notEqual(runtime.refuses({ ...wasi, session: true }), undefined)
  assert.equal(runtime.refuses(spec), undefined)
  assert.equal(runtime.refuses(wasi), undefined)
})

test('a program of another kind than the sandbox was opened for is refused', async () => {
  const { language: _, ...wasi } = spec
  const programs = [
    { kind: 'argv', argv: ['true'] },
    { kind: 'script', script: 'true' },
    { kind: 'code', language: 'python', code: '' },
  ] as const
  for (const program of programs) {
    for (const each of [spec, wasi]) {
      const sandbox = await runtime.open(each, signal)
      await assert.rejects(sandbox.run({ program }, signal), { code: 'RUNTIME_UNAVAILABLE', effect: 'none' })
      await sandbox.dispose()
    }
  }
})

test('a sandbox runs one program, and none after it was disposed', async () => {
  const program = { kind: 'code', language: 'javascript', code: 'return 1' } as const
  const sandbox = await runtime.open(spec, signal)
  assert.equal((await sandbox.run({ program }, signal)).value, 1)
  await assert.rejects(sandbox.run({ program }, signal), { code: 'INTERNAL' })
  const unused = await runtime.open(spec, signal)
  await Promise.all([unused.dispose(), unused.dispose()])
  await unused.ended
  await assert.rejects(unused.run({ program }, signal), { code: 'INTERNAL' })
})

test('cancelling a program or disposing its sandbox ends it, and the next program runs', async () => {
  const program = { kind: 'code', language: 'javascript', code: 'console.log(1); while (true);' } as const
  const reason = new Error('enough')
  const cancelled = await runtime.open(spec, signal)
  const controller = new AbortController()
  const onOutput = (): void => controller.abort(reason)
  await assert.rejects(cancelled.run({ program, onOutput }, controller.signal), (error) => error === reason)
  const disposed = await runtime.open(spec, signal)
  const running = disposed.run({ program, onOutput: () => void disposed.dispose() }, signal)
  await assert.rejects(running, { code: 'CANCELLED' })
  await disposed.ended
  assert.equal((await bench.code('javascript', 'return 2')).value, 2)
})

test('two hundred concurrent programs each return their own result', async () => {
  const runs = Array.from({ length: 200 }, (_, index) =>
    bench.code('javascript', `console.log(${index}); require('fs').writeFileSync('f', '${index}'); return ${index}`),
  )
  for (const [index, { value, stdout }] of (await Promise.all(runs)).entries()) {
    assert.deepEqual([value, stdout], [index, `${index}\n`])
  }
})

test('programs that occupy threads do not block other programs', async () => {
  const hogs = Array.from({ length: 3 }, () =>
    bench.code('javascript', 'while (true);', { limits: { wallMs: 1_500, cpuMs: 1_500 } }),
  )
  const quick = await Promise.all(Array.from({ length: 5 }, () => bench.code('javascript', 'return 1')))
  assert.deepEqual(
    quick.map(({ value }) => value),
    [1, 1, 1, 1, 1],
  )
  for (const { hit } of await Promise.all(hogs)) assert.equal(hit, 'wallMs')
})

test('closing the runtime ends open sandboxes, and later opens are refused', async () => {
  const own = createWasmRuntime()
  const waiting = await own.open(spec, signal)
  const busy = await own.open(spec, signal)
  const program = { kind: 'code', language: 'javascript', code: 'while (true);' } as const
  const running = assert.rejects(busy.run({ program }, signal), { code: 'CANCELLED' })
  await own.close()
  await Promise.all([running, waiting.ended, busy.ended])
  await assert.rejects(own.open(spec, signal), { code: 'SANDBOX_INIT_FAILED' })
  await createWasmRuntime().close()
})
