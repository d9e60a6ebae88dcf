import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { wrappedRunsc } from './guest-kernels.ts'

test('a runsc that cannot print its version is RUNTIME_UNAVAILABLE with its path and the remedy', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-runsc-'))
  try {
    const program = join(folder, 'runsc-broken')
    writeFileSync(program, '#!/bin/sh\nexit 3\n', { mode: 0o755 })
    await assert.rejects(wrappedRunsc(program, folder), {
      code: 'RUNTIME_UNAVAILABLE',
      message: /runsc-broken does not print its version\. Install gVisor again/,
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})
