import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { asRoot, isRoot, outsider } from './bubblewrap.fixture.ts'
import { openSandboxRoot, ownName, stateOf } from './sandbox-root.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-root-'))
chmodSync(folder, 0o755)
after(() => rmSync(folder, { recursive: true }))

async function refusal(path: string): Promise<string> {
  const error = await openSandboxRoot({ folder: path }).then(
    () => assert.fail('it was opened'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
  assert.match(String(error.details?.remedy), /SANDBOX_ROOT/)
  return error.message
}

test('openSandboxRoot creates a folder that sandboxes can traverse but not list, and close removes its run folder', async () => {
  const path = join(folder, 'new', 'deeper')
  const before = process.umask(0o077)
  try {
    const root = await openSandboxRoot({ folder: path })
    const mode = isRoot ? 0o711 : 0o700
    assert.equal(statSync(path).mode & 0o777, mode)
    assert.equal(statSync(root.run).mode & 0o777, mode)
    assert.equal(dirname(root.run), path)
    assert.equal(stateOf(basename(root.run).slice('run-'.length)), 'alive')
    const other = await openSandboxRoot({ folder: path })
    assert.notEqual(other.run, root.run)
    await root.close()
    assert.ok(!existsSync(root.run) && existsSync(other.run))
    await other.close()
  } finally {
    process.umask(before)
  }
})

test('a symbolic link, or a folder that others can write to, is refused', async () => {
  const target = join(folder, 'target')
  mkdirSync(target)
  symlinkSync(target, join(folder, 'link'))
  assert.match(await refusal(join(folder, 'link')), /is a symbolic link/)
  mkdirSync(join(folder, 'open'))
  for (const mode of [0o777, 0o770, 0o720, 0o702]) {
    chmodSync(join(folder, 'open'), mode)
    assert.match(await refusal(join(folder, 'open')), /can be written by others/)
    assert.match(await refusal(join(folder, 'open', 'inner')), /is in .*open, which can be written by others/)
  }
  rmSync(join(folder, 'open'), { recursive: true })
})

test('a folder that belongs to another user, or lies inside one, is refused', asRoot, async () => {
  const theirs = join(folder, 'theirs')
  mkdirSync(join(theirs, 'inner'), { recursive: true })
  chownSync(theirs, outsider, outsider)
  assert.match(await refusal(theirs), new RegExp(`belongs to uid ${outsider} instead of 0`))
  assert.match(await refusal(join(theirs, 'inner')), /which belongs to uid/)
})

test(
  'an own folder with mode 0700 is made traversable; below such a folder the default root is used',
  asRoot,
  async () => {
    mkdirSync(join(folder, 'closed', 'inner'), { recursive: true })
    chmodSync(join(folder, 'closed'), 0o700)
    const below = await openSandboxRoot({ folder: join(folder, 'closed', 'inner') })
    assert.equal(below.folder, join(tmpdir(), 'gantry-sandboxes-0'))
    assert.equal(statSync(join(folder, 'closed')).mode & 0o777, 0o700)
    await below.close()
    const own = await openSandboxRoot({ folder: join(folder, 'closed') })
    assert.equal(own.folder, join(folder, 'closed'))
    assert.equal(statSync(join(folder, 'closed')).mode & 0o777, 0o711)
    await own.close()
  },
)

test('stateOf tells live, dead and foreign-namespace owners apart by their name', async () => {
  const own = ownName()
  assert.equal(stateOf(own), 'alive')
  const [pid, start, boot, namespace, part] = own.split('-')
  const named = (...parts: unknown[]): string => parts.join('-')
  assert.equal(stateOf(named(pid, Number(start) + 1, boot, namespace, part)), 'dead', 'the pid was given again')
  assert.equal(stateOf(named(pid, start, 'ffffff', namespace, part)), 'dead', 'before the machine started')
  const elsewhere = { isHere: false }
  assert.equal(stateOf(named(pid, start, 'ffffff', namespace, part), elsewhere), 'unknown', 'of another machine')
  assert.equal(stateOf(named(pid, Number(start) + 1, boot, namespace, part), elsewhere), 'dead')
  assert.equal(stateOf(named(pid, start, boot, 'zzz', part)), 'unknown')
  assert.equal(stateOf(named(2 ** 22 + 1, start, boot, namespace, part)), 'dead')
  for (const text of ['', 'a', named(pid, start), `${own}-self`, `../${own}`]) assert.equal(stateOf(text), undefined)
  const child = spawn('/bin/true')
  await once(child, 'exit')
  assert.equal(stateOf(named(child.pid, start, boot, namespace, part)), 'dead')
})
