import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collect, createWorkspace, layOut, segmentsOf, spaceOf, type Workspace, WorkspaceError } from './workspace.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const code =
  (expected: string) =>
  (error: unknown): boolean =>
    error instanceof WorkspaceError && error.code === expected

function workspaceOf(diskBytes = 100_000): Workspace {
  return createWorkspace(diskBytes, () => 0)
}

test('input files are collected again, sorted by path', () => {
  const workspace = workspaceOf()
  const files = new Map([
    ['b/c.txt', bytes('two')],
    ['a.txt', bytes('one')],
  ])
  layOut(workspace, files)
  const { files: found, skipped } = collect(workspace, { files: 10, bytes: 100 })
  assert.deepEqual([...found.keys()], ['a.txt', 'b/c.txt'])
  assert.deepEqual(found.get('b/c.txt'), bytes('two'))
  assert.deepEqual(skipped, [])
})

test('files are collected only on request, and those above the limits are listed as skipped', () => {
  const workspace = workspaceOf()
  layOut(workspace, new Map(['a', 'b', 'c'].map((name) => [name, bytes('12345')])))
  assert.equal(collect(workspace, undefined).files.size, 0)
  assert.deepEqual(collect(workspace, { files: 2, bytes: 100 }).skipped, [
    { path: 'c', reason: 'over the number of files' },
  ])
  const { files, skipped } = collect(workspace, { files: 9, bytes: 9 })
  assert.deepEqual([[...files.keys()], skipped.map(({ path }) => path)], [['a'], ['b', 'c']])
})

test('a file whose name has a backslash or a line break is skipped', () => {
  const workspace = workspaceOf()
  workspace.openFile(workspace.root, ['..\\up'], 'may')
  workspace.openFile(workspace.root, ['line\nbreak'], 'may')
  const { files, skipped } = collect(workspace, { files: 9, bytes: 9 })
  assert.equal(files.size, 0)
  assert.equal(skipped.length, 2)
})

test('writing above the workspace size fails with ENOSPC, and removing a file frees its space', () => {
  const workspace = workspaceOf(10_000)
  const file = workspace.openFile(workspace.root, ['a'], 'may')
  workspace.write(file, 0, new Uint8Array(8_000))
  assert.throws(() => workspace.write(file, 8_000, new Uint8Array(2_000)), code('ENOSPC'))
  assert.equal(workspace.full, true)
  workspace.remove(workspace.root, ['a'], 'file')
  workspace.write(workspace.openFile(workspace.root, ['b'], 'may'), 0, new Uint8Array(8_000))
})

test('a sparse write or resize above the workspace size fails without allocating', () => {
  const workspace = workspaceOf()
  const file = workspace.openFile(workspace.root, ['a'], 'may')
  assert.throws(() => workspace.write(file, Number.MAX_SAFE_INTEGER - 1, bytes('x')), code('ENOSPC'))
  assert.throws(() => workspace.resize(file, 2 ** 40), code('ENOSPC'))
})

test('the number of empty files and folders is bounded', () => {
  const workspace = workspaceOf(10_240)
  for (let index = 0; index < 10; index++) workspace.openFile(workspace.root, [`${index}`], 'may')
  assert.throws(() => workspace.makeFolder(workspace.root, ['more']), code('ENOSPC'))
})

test('truncated bytes read as zeros when the file grows again', () => {
  const workspace = workspaceOf()
  const file = workspace.openFile(workspace.root, ['a'], 'may')
  workspace.write(file, 0, bytes('secret'))
  workspace.resize(file, 0)
  workspace.resize(file, 6)
  assert.deepEqual([...file.bytes.subarray(0, file.size)], [0, 0, 0, 0, 0, 0])
})

test('the depth of folders is limited, for creating and for renaming', () => {
  const workspace = workspaceOf()
  let folder = workspace.root
  for (let depth = 1; depth < 32; depth++) folder = workspace.makeFolder(folder, ['d'])
  assert.throws(() => workspace.makeFolder(folder, ['d']), code('ENAMETOOLONG'))
  const tall = workspace.makeFolder(workspace.root, ['tall'])
  workspace.makeFolder(tall, ['inner'])
  const parent = workspace.find(workspace.root, Array(30).fill('d'))
  assert.ok(parent?.kind === 'folder')
  assert.throws(() => workspace.rename(workspace.root, ['tall'], parent, ['tall']), code('ENAMETOOLONG'))
})

test('a folder cannot be moved into itself, and renaming a file replaces the target', () => {
  const workspace = workspaceOf()
  layOut(
    workspace,
    new Map([
      ['a/b/c', bytes('1')],
      ['x', bytes('2')],
    ]),
  )
  const { root } = workspace
  assert.throws(() => workspace.rename(root, ['a'], root, ['a', 'b', 'd']), code('EINVAL'))
  workspace.rename(root, ['x'], root, ['a', 'b', 'c'])
  assert.deepEqual([...collect(workspace, { files: 9, bytes: 9 }).files], [['a/b/c', bytes('2')]])
})

test('segmentsOf refuses a path that leaves its base', () => {
  assert.equal(segmentsOf('../x'), undefined)
  assert.equal(segmentsOf('a/../../x'), undefined)
  assert.deepEqual(segmentsOf('a/./b//../c'), ['a', 'c'])
})

test('spaceOf returns a size in which the files fit', () => {
  const files = new Map([
    ['a/b', new Uint8Array(500)],
    ['c', new Uint8Array(0)],
  ])
  layOut(workspaceOf(spaceOf(files)), files)
  assert.throws(() => layOut(workspaceOf(1_000), files), code('ENOSPC'))
})
