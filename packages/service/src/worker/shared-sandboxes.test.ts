import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedSandboxes } from './shared-sandboxes.ts'

test('the same options give the same sandboxes, other options others, and options with functions are returned unchanged', async () => {
  const shared = sharedSandboxes('tag')
  const first = await shared.of({ pool: false, limits: { wallMs: 1_000, pids: 8 } })
  assert.equal(await shared.of({ limits: { pids: 8, wallMs: 1_000 }, pool: false }), first)
  const second = await shared.of({ pool: false })
  assert.notEqual(second, first)
  assert.equal(await shared.of({ pool: false }), second)
  const live = { pool: false, random: () => 0 } as const
  assert.equal(await shared.of(live), live)
  assert.equal(shared.sessions, 0)
  await shared.close()
})

test('invalid options are refused and leave the present sandboxes unchanged', async () => {
  const shared = sharedSandboxes('tag')
  const first = await shared.of({ pool: false })
  await assert.rejects(shared.of({ sessions: { idleMs: 0 } }), { code: 'CONFIG_INVALID' })
  assert.equal(await shared.of({ pool: false }), first)
  await shared.close()
})
