import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { SandboxJob } from '@gantry/sandbox'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { limits } from './limits.fixture.ts'
import { qemuOptions } from './machines.fixture.ts'

const signal = AbortSignal.timeout(800_000)
const runtime = createQemuRuntime(qemuOptions())
after(() => runtime.close())

function python(code: string): SandboxJob {
  return { program: { kind: 'code', language: 'python', code } }
}

test('a session in a machine keeps its state and its files over runs, and a limit of one run ends it', async () => {
  const spec = { limits: { ...limits, pids: 20 }, network: 'none', session: true, language: 'python' } as const
  const sandbox = await runtime.open(spec, signal)
  try {
    await sandbox.run(python('kept = 41\nopen("kept", "w").write("x" * 1000)'), signal)
    const again = await sandbox.run(python('import os\nreturn [kept + 1, os.path.getsize("kept")]'), signal)
    assert.deepEqual(again.value, [42, 1_000])
    const forks = 'import os, time\nfor _ in range(40):\n  if os.fork() == 0: time.sleep(60)'
    const bomb = await sandbox.run(python(forks), signal)
    assert.equal(bomb.hit, 'pids')
    await sandbox.ended
  } finally {
    await sandbox.dispose()
  }
})

test('a deterministic program in two machines of one snapshot draws the same numbers at the same time', async () => {
  const spec = {
    limits,
    network: 'none',
    language: 'python',
    deterministic: { seed: 7, nowMs: 1_700_000_000_000 },
  } as const
  const values: unknown[] = []
  for (let n = 0; n < 2; n += 1) {
    const sandbox = await runtime.open(spec, signal)
    const { value } = await sandbox.run(python('import random, time\nreturn [random.random(), time.time()]'), signal)
    await sandbox.dispose()
    values.push(value)
  }
  assert.deepEqual(values[0], values[1])
  assert.ok(Array.isArray(values[0]))
  assert.equal(values[0][1], 1_700_000_000)
})

test('a machine is refused a network, with the remedy', () => {
  const refusal = runtime.refuses({ limits, network: { allow: ['https://example.com'] }, language: 'python' })
  assert.match(refusal?.reason ?? '', /no network device|No egress/)
})
