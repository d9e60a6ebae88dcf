import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { asRoot } from './bubblewrap.fixture.ts'
import { ownName } from './sandbox-root.ts'
import { claimsFolder, claimUids } from './uids.ts'

const first = 0x7000_0000
const blockSize = 65_536

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-uids-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}

test('each sandbox gets a unique uid from one claimed block, and close releases the block', async (t) => {
  const folder = folderFor(t)
  const uids = await claimUids({ folder, owner: ownName() })
  const given = Array.from({ length: 100 }, () => uids.next())
  assert.equal(new Set(given).size, 100)
  for (const uid of given) assert.ok(uid >= first && uid < 0x7fff_ffff)
  assert.equal(new Set(given.map((uid) => Math.floor(uid / blockSize))).size, 1)
  assert.equal(readdirSync(claimsFolder(folder)).length, 1)
  await uids.close()
  assert.deepEqual(readdirSync(claimsFolder(folder)), [])
})

test('a uid is reused only after its release, when the block has no unused uid', async (t) => {
  const uids = await claimUids({ folder: folderFor(t), owner: ownName() })
  const given = Array.from({ length: blockSize - 1 }, () => uids.next())
  assert.equal(new Set(given).size, blockSize - 1)
  assert.throws(() => uids.next(), /All uids/)
  const [, , third = 0] = given
  uids.release(third)
  assert.equal(uids.next(), third)
  assert.throws(() => uids.next(), /All uids/)
  await uids.close()
})

test('claimUids skips a block with an existing claim', async (t) => {
  const folder = folderFor(t)
  const uids = await claimUids({ folder, owner: ownName() }, () => 7)
  const picks = [7, 7, 8]
  const others = await claimUids({ folder, owner: ownName() }, () => picks.shift() ?? assert.fail('none was taken'))
  assert.deepEqual(picks, [])
  assert.equal(uids.next(), first + 7 * blockSize)
  assert.equal(others.next(), first + 8 * blockSize)
  await uids.close()
  await others.close()
})

test('claimUids fails with RUNTIME_UNAVAILABLE when no block is free', async (t) => {
  const folder = folderFor(t)
  const uids = await claimUids({ folder, owner: ownName() }, () => 7)
  writeFileSync(join(claimsFolder(folder), '8-stranger'), '')
  let turn = 0
  await assert.rejects(
    claimUids({ folder, owner: ownName() }, () => 7 + (turn++ % 2)),
    { code: 'RUNTIME_UNAVAILABLE' },
  )
  await uids.close()
  assert.deepEqual(readdirSync(claimsFolder(folder)), ['8-stranger'])
})

test('claimUids skips a block while a process runs under one of its uids', asRoot, async (t) => {
  const uid = first + 11 * blockSize + 5
  const child = spawn('/bin/sleep', ['60'], { uid, gid: uid })
  const exit = once(child, 'exit')
  t.after(() => child.kill('SIGKILL'))
  await once(child, 'spawn')
  const picks = [11, 12]
  const uids = await claimUids({ folder: folderFor(t), owner: ownName() }, () => picks.shift() ?? assert.fail())
  assert.equal(uids.next(), first + 12 * blockSize)
  await uids.close()
  child.kill('SIGKILL')
  await exit
  const again = await claimUids({ folder: folderFor(t), owner: ownName() }, () => 11)
  await again.close()
})
