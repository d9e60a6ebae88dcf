import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { runCommandLine } from './cli.ts'
import { keptIo } from './io.fixture.ts'

test('an error that cannot be serialized exits with 1 and a fixed message', async () => {
  const circle: { self?: unknown } = {}
  circle.self = circle
  const readInput = () => Promise.reject(new ToolError('TIMEOUT', 'x', { details: { circle } }))
  const io = keptIo({ readInput })
  assert.equal(await runCommandLine(['run', 'demo:echo', '-', '--json'], io), 1)
  assert.match(io.printed.err, /^INTERNAL: The command failed with an error that cannot be serialized\.\n/)
  assert.equal(JSON.parse(io.printed.out).error.code, 'INTERNAL')
})
