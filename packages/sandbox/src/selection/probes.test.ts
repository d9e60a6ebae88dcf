import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Probe } from '@gantry/core/internal/runtimes/runtime'
import { fakeRuntime, fakeTiming, never, settled, untilAborted, works } from '../runtimes/fake.fixture.ts'
import { createProbes } from './probes.ts'

const broken: Probe = { available: false, reason: 'No bwrap.', remedy: 'Install it.' }

test('those who ask at the same time share one probe, and those who ask later hear at once', async () => {
  const gate = Promise.withResolvers<Probe>()
  const runtime = fakeRuntime({ probe: () => gate.promise })
  const probes = createProbes(fakeTiming(), never)
  const asked = [probes.get(runtime, never), probes.get(runtime, never)]
  gate.resolve(works)
  assert.deepEqual(await Promise.all(asked), [works, works])
  assert.equal(probes.get(runtime, never), works)
  assert.equal(runtime.probes, 1)
})

test('who goes away while a probe runs does not end it for the others', async () => {
  const gate = Promise.withResolvers<Probe>()
  const runtime = fakeRuntime({ probe: () => gate.promise })
  const probes = createProbes(fakeTiming(), never)
  const controller = new AbortController()
  const impatient = probes.get(runtime, controller.signal)
  const patient = probes.get(runtime, never)
  controller.abort(new Error('gone'))
  await assert.rejects(async () => impatient, /gone/)
  gate.resolve(works)
  assert.equal(await patient, works)
})

test('a failure is believed for 30 seconds, and then it is tried again', async () => {
  const answers = [broken, works]
  const timing = fakeTiming()
  const runtime = fakeRuntime({ probe: () => answers[runtime.probes - 1] ?? assert.fail() })
  const probes = createProbes(timing, never)
  assert.equal(await probes.get(runtime, never), broken)
  await timing.advance(29_999)
  assert.equal(await probes.get(runtime, never), broken)
  assert.equal(runtime.probes, 1)
  await timing.advance(1)
  assert.equal(await probes.get(runtime, never), works)
  await timing.advance(10_000_000)
  assert.equal(probes.get(runtime, never), works)
  assert.equal(runtime.probes, 2)
})

test('a runtime that let an attack through is refused for good', async () => {
  const pierced = { ...broken, breached: ['read a secret of the host'] }
  const timing = fakeTiming()
  const runtime = fakeRuntime({ probe: () => pierced })
  const probes = createProbes(timing, never)
  assert.equal(await probes.get(runtime, never), pierced)
  await timing.advance(100_000_000)
  assert.equal(await probes.get(runtime, never), pierced)
  assert.equal(runtime.probes, 1)
})

test('a probe that throws or never ends means that the runtime does not work', async () => {
  const timing = fakeTiming()
  const probes = createProbes(timing, never)
  const throwing = fakeRuntime({
    probe: () => {
      throw new Error('no')
    },
  })
  assert.equal((await probes.get(throwing, never)).available, false)
  let told: AbortSignal | undefined
  const hanging = fakeRuntime({
    probe: (signal) => {
      told = signal
      return new Promise(() => undefined)
    },
  })
  const asked = probes.get(hanging, never)
  await timing.advance(60_000)
  const probe = await asked
  assert.ok(!probe.available && /took longer than 60000 ms/.test(probe.reason))
  assert.equal(told?.aborted, true)
  assert.equal(timing.pending, 0)
})

test('closing ends a probe that runs', async () => {
  const closing = new AbortController()
  const runtime = fakeRuntime({ probe: untilAborted })
  const asked = createProbes(fakeTiming(), closing.signal).get(runtime, never)
  await settled()
  closing.abort()
  assert.equal((await asked).available, false)
})
