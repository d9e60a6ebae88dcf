import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Probe } from '@gantry/core/internal/runtimes/runtime'
import { fakeRuntime, fakeTiming, never, settled, untilAborted, works } from '../runtimes/fake.fixture.ts'
import { createProbes } from './select.ts'

const broken: Probe = { available: false, reason: 'No bwrap.', remedy: 'Install it.' }

test('concurrent requests share one probe, and later ones use its result', async () => {
  const gate = Promise.withResolvers<Probe>()
  const runtime = fakeRuntime({ probe: () => gate.promise })
  const probes = createProbes(fakeTiming(), never)
  const asked = [probes.get(runtime, never), probes.get(runtime, never)]
  gate.resolve(works)
  assert.deepEqual(await Promise.all(asked), [works, works])
  assert.equal(probes.get(runtime, never), works)
  assert.equal(runtime.probes, 1)
})

test('cancelling one request does not cancel the probe for the others', async () => {
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

test('a failed probe is cached for 30 seconds and then repeated', async () => {
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

test('a runtime with a breached self-test attack is refused permanently', async () => {
  const pierced = { ...broken, breached: ['read a secret of the host'] }
  const timing = fakeTiming()
  const runtime = fakeRuntime({ probe: () => pierced })
  const probes = createProbes(timing, never)
  assert.equal(await probes.get(runtime, never), pierced)
  await timing.advance(100_000_000)
  assert.equal(await probes.get(runtime, never), pierced)
  assert.equal(runtime.probes, 1)
})

test('a probe that throws or times out makes the runtime unavailable', async () => {
  const timing = fakeTiming()
  const probes = createProbes(timing, never)
  const throwing = fakeRuntime({
    probe: () => {
      throw new Error('no')
    },
  })
  assert.equal((await probes.get(throwing, never)).available, false)
  let received: AbortSignal | undefined
  const hanging = fakeRuntime({
    probe: (signal) => {
      received = signal
      return new Promise(() => undefined)
    },
  })
  const asked = probes.get(hanging, never)
  await timing.advance(60_000)
  const probe = await asked
  assert.ok(!probe.available && /took longer than 60000 ms/.test(probe.reason))
  assert.equal(received?.aborted, true)
  assert.equal(timing.pending, 0)
})

test('closing cancels a running probe', async () => {
  const closing = new AbortController()
  const runtime = fakeRuntime({ probe: untilAborted })
  const asked = createProbes(fakeTiming(), closing.signal).get(runtime, never)
  await settled()
  closing.abort()
  assert.equal((await asked).available, false)
})
