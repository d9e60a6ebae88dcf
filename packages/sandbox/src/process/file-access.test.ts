import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { reachable, unreachable } from './file-access.ts'

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-reach-'))
  chmodSync(folder, 0o755)
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}

test('unreachable checks every component of a path, through symbolic links too', async (t) => {
  const folder = folderFor(t)
  mkdirSync(join(folder, 'a', 'b'), { recursive: true })
  const file = join(folder, 'a', 'b', 'program')
  writeFileSync(file, '')
  chmodSync(file, 0o755)
  symlinkSync(join('a', 'b'), join(folder, 'link'))
  symlinkSync('loop', join(folder, 'loop'))
  const linked = join(folder, 'link', 'program')
  assert.equal(await unreachable(file, 'execute'), undefined)
  assert.equal(await unreachable(linked, 'execute'), undefined)
  chmodSync(join(folder, 'a'), 0o750)
  assert.equal(await unreachable(linked, 'execute'), join(folder, 'a'))
  chmodSync(join(folder, 'a'), 0o711)
  assert.equal(await unreachable(linked, 'execute'), undefined, 'passing needs no right to list')
  assert.equal(await unreachable(join(folder, 'a'), 'read'), join(folder, 'a'))
  chmodSync(file, 0o744)
  assert.equal(await unreachable(linked, 'execute'), file)
  assert.equal(await unreachable(linked, 'read'), undefined)
  assert.equal(await unreachable(join(folder, 'loop'), 'read'), join(folder, 'loop'))
  await assert.rejects(unreachable(join(folder, 'absent'), 'read'), { code: 'ENOENT' })
})

test('reachable returns an accessible path unchanged and copies an inaccessible one world-readable, without symbolic links', async (t) => {
  const folder = folderFor(t)
  const [closed, copies] = [join(folder, 'closed'), join(folder, 'copies')]
  mkdirSync(join(closed, 'drivers', 'more'), { recursive: true })
  mkdirSync(copies)
  writeFileSync(join(closed, 'program'), 'program')
  writeFileSync(join(closed, 'own'), 'own')
  writeFileSync(join(closed, 'drivers', 'more', 'a.py'), 'a')
  symlinkSync('/etc/shadow', join(closed, 'drivers', 'link'))
  chmodSync(join(closed, 'program'), 0o755)
  chmodSync(join(closed, 'own'), 0o700)
  assert.equal(await reachable(join(closed, 'program'), join(copies, 'p0')), join(closed, 'program'))
  chmodSync(closed, 0o700)
  assert.equal(await reachable(join(closed, 'program'), join(copies, 'p1')), join(copies, 'p1'))
  assert.equal(statSync(join(copies, 'p1')).ino, statSync(join(closed, 'program')).ino, 'a link is enough')
  assert.equal(await reachable(join(closed, 'own'), join(copies, 'p2')), join(copies, 'p2'))
  assert.equal(statSync(join(copies, 'p2')).mode & 0o777, 0o555)
  assert.equal(statSync(join(closed, 'own')).mode & 0o777, 0o700, 'the original keeps its mode')
  assert.equal(await reachable(join(closed, 'drivers'), join(copies, 'd')), join(copies, 'd'))
  assert.equal(readFileSync(join(copies, 'd', 'more', 'a.py'), 'utf8'), 'a')
  assert.equal(await unreachable(join(copies, 'd', 'more', 'a.py'), 'read'), undefined)
  assert.throws(() => statSync(join(copies, 'd', 'link')), { code: 'ENOENT' })
})
