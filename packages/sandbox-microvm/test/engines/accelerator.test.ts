import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { limits } from './limits.fixture.ts'
import { qemuOptions } from './machines.fixture.ts'

const signal = AbortSignal.timeout(300_000)

test('a QEMU that hangs with KVM is given up after a bounded time, with reason and remedy, and is refused', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-kvm-'))
  const program = join(folder, 'qemu')
  const script = '#!/bin/sh\n[ "$1" = --version ] && echo "QEMU emulator version 7.2.0" && exit\nexec sleep 600\n'
  writeFileSync(program, script)
  for (const path of [folder, program]) chmodSync(path, 0o755)
  const runtime = createQemuRuntime({ ...qemuOptions(), program, accelerator: 'kvm' })
  try {
    await assert.rejects(runtime.open({ limits, network: 'none' }, signal), {
      code: 'RUNTIME_UNAVAILABLE',
      message: /does not start here within 10000 ms\..*Load the module of KVM/,
    })
  } finally {
    await runtime.close()
    rmSync(folder, { recursive: true })
  }
})

test('an absent QEMU and an absent image are refused with reason and remedy', async () => {
  const cases = [
    [{ program: '/nowhere/qemu' }, /QEMU is not installed.*apt-get install qemu-system-x86/],
    [{ image: 'full-of-nothing' }, /There is no image "full-of-nothing".*gantry runtime build standard --engine qemu/],
    [{ image: '../escape' }, /is no name of an image/],
  ] as const
  for (const [options, message] of cases) {
    const runtime = createQemuRuntime({ ...qemuOptions(), ...options })
    const probe = await runtime.probe(signal)
    assert.equal(probe.available, false)
    assert.match(`${probe.reason} ${probe.remedy}`, message)
    await runtime.close()
  }
})
