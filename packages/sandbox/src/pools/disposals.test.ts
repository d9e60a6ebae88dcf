import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { type FakeOptions, type FakeSandbox, fakeRuntime, never, settled } from '../runtimes/fake.fixture.ts'
import { defaultLimits } from '../selection/limits.ts'
import { createDisposals } from './disposals.ts'

const spec: SandboxSpec = { limits: defaultLimits, network: 'none' }

/** Sandboxes whose removal waits until it is let go. */
async function setUp(count: number, options: FakeOptions) {
  const held: (() => void)[] = []
  const onDispose = (): Promise<void> => new Promise((resolve) => void held.push(resolve))
  const runtime = fakeRuntime({ onDispose, ...options })
  const sandboxes: FakeSandbox[] = []
  for (let index = 0; index < count; index += 1) sandboxes.push((await runtime.open(spec, never)) as FakeSandbox)
  const letGo = (): void => {
    for (const open of held.splice(0)) open()
  }
  return { runtime, sandboxes, letGo }
}

/** Whether a promise is settled now. */
async function isSettled(work: Promise<unknown>): Promise<boolean> {
  let done = false
  void work.then(() => {
    done = true
  })
  await settled()
  return done
}

test('a sandbox that was killed is removed in the background, which settled waits for', async () => {
  const { sandboxes, letGo } = await setUp(1, { kill: () => true })
  const [sandbox = assert.fail()] = sandboxes
  const disposals = createDisposals()
  await disposals.end(sandbox)
  assert.equal(sandbox.disposed, false)
  const all = disposals.settled()
  assert.equal(await isSettled(all), false)
  letGo()
  await all
  assert.equal(sandbox.disposed, true)
})

test('a sandbox that is not known to be dead is waited for until it is removed', async () => {
  const without: FakeOptions[] = [
    {},
    { kill: () => false },
    {
      kill: () => {
        throw new Error('no such process')
      },
    },
  ]
  for (const options of without) {
    const { sandboxes, letGo } = await setUp(1, options)
    const [sandbox = assert.fail()] = sandboxes
    const ended = createDisposals().end(sandbox)
    assert.equal(await isSettled(ended), false)
    letGo()
    await ended
    assert.equal(sandbox.disposed, true)
  }
})

test('no more than the bound are removed in the background; further ones are waited for', async () => {
  const { sandboxes, letGo } = await setUp(3, { kill: () => true })
  const disposals = createDisposals(2)
  const [first = assert.fail(), second = assert.fail(), third = assert.fail()] = sandboxes
  await disposals.end(first)
  await disposals.end(second)
  const ended = disposals.end(third)
  assert.equal(await isSettled(ended), false)
  letGo()
  await ended
  await disposals.settled()
  assert.ok(sandboxes.every(({ disposed }) => disposed))
})
