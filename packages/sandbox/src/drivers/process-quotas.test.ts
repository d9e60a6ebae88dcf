import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isRoot, outsider, real } from '../process/bubblewrap.fixture.ts'

test('programs in sandboxes of an unprivileged user cannot exhaust the per-user kernel quotas', real, (t) => {
  if (!isRoot) return t.skip('attack 58 shows it for the user that runs the tests')
  const base = mkdtempSync(join(tmpdir(), 'gantry-quotas-'))
  t.after(() => rmSync(base, { recursive: true, force: true }))
  chmodSync(base, 0o1777)
  const script = join(import.meta.dirname, 'process-quotas.fixture.ts')
  const { stdout, stderr, status } = spawnSync(process.execPath, [script, join(base, 'own')], {
    uid: outsider,
    gid: outsider,
    cwd: '/',
    encoding: 'utf8',
    timeout: 60_000,
    env: { PATH: '/usr/bin:/bin', HOME: '/' },
  })
  if (/EACCES|permission denied/i.test(stderr)) return t.skip('this checkout is closed to other users')
  assert.equal(status, 0, stderr)
  const { end, uid, notes } = JSON.parse(stdout)
  assert.deepEqual([end, uid], ['blocked', outsider], notes.join('\n'))
})
