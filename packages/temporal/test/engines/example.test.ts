import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runChild } from '../../../../scripts/child.ts'
import { serverAddress } from './temporal.fixture.ts'

test('the example of Temporal prints what it should when a server is configured', async () => {
  const root = join(import.meta.dirname, '../../../..')
  const environment = { ...process.env, TEMPORAL_ADDRESS: serverAddress() }
  const program = [join(root, 'examples/temporal/main.ts')]
  const { code, stdout, stderr } = await runChild(process.execPath, program, {
    cwd: root,
    timeoutMs: 120_000,
    env: environment,
  })
  assert.equal(code, 0, stderr)
  assert.equal(stdout, readFileSync(join(root, 'examples/temporal/expected-with-server.txt'), 'utf8'))
})
