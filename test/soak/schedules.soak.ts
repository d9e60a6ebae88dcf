import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { shareOf } from './share.ts'

const schedules = shareOf(100_000)
const program = join(import.meta.dirname, 'schedules-run.ts')

test(`${schedules} schedules of claim, lease and commit keep every invariant`, async () => {
  const first = Number(process.env.GANTRY_SOAK_SEED ?? 1) % 1_000_000
  const { stdout } = await promisify(execFile)(process.execPath, [program, String(first), String(schedules)])
  assert.equal(stdout, '')
})
