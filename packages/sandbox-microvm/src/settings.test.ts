import assert from 'node:assert/strict'
import { test } from 'node:test'
import { microvmChecks } from './settings.ts'

test('settings of machines are checked with their path', () => {
  const { qemu } = microvmChecks
  assert.deepEqual(
    qemu.issues({ program: '/usr/bin/qemu', accelerator: 'auto', processors: 2, snapshots: false }, ''),
    [],
  )
  const cases: readonly (readonly [object, string])[] = [
    [{ program: 'qemu' }, '/program'],
    [{ accelerator: 'hvf' }, '/accelerator'],
    [{ processors: 0 }, '/processors'],
    [{ snapshots: 'yes' }, '/snapshots'],
    [{ monitor: 'tcp:0.0.0.0:1' }, '/monitor'],
  ]
  for (const [settings, path] of cases) {
    assert.deepEqual(
      qemu.issues(settings, '').map((issue) => issue.path),
      [path],
    )
  }
})

test('settings of Firecracker are checked with their path', () => {
  const { firecracker } = microvmChecks
  const whole = {
    program: '/opt/firecracker',
    jailer: '/opt/jailer',
    image: 'standard',
    processors: 2,
    snapshots: true,
  }
  assert.deepEqual(firecracker.issues(whole, ''), [])
  const cases: readonly (readonly [object, string])[] = [
    [{ jailer: 'jailer' }, '/jailer'],
    [{ processors: 33 }, '/processors'],
    [{ accelerator: 'kvm' }, '/accelerator'],
  ]
  for (const [settings, path] of cases) {
    assert.deepEqual(
      firecracker.issues(settings, '').map((issue) => issue.path),
      [path],
    )
  }
})
