import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRoot } from './bubblewrap.fixture.ts'
import { sweep } from './janitor.ts'
import { ownName } from './sandbox-root.ts'
import { claimsFolder } from './uids.ts'

interface Predecessor {
  readonly run: string
  readonly parents: readonly string[]
  readonly pid: number
  readonly child: ChildProcess
}

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-janitor-'))
  chmodSync(folder, 0o711)
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}

async function predecessor(t: TestContext, root: string, canary: string): Promise<Predecessor> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'janitor.fixture.ts'), root, canary], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  return { ...JSON.parse(String(line)), child }
}

async function kill({ child }: Predecessor): Promise<void> {
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

function runs(pid: number): boolean {
  const state = /^State:\s+(\S)/m.exec(existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/status`, 'utf8') : '')
  return state !== null && state[1] !== 'Z'
}

/** What was removed in a folder; other dead processes may have left control groups beside it. */
async function sweptFrom(root: string): Promise<string[]> {
  return (await sweep(root)).removed.filter((path) => path.startsWith(root))
}

test('the janitor kills and removes what a killed owner left: processes, control groups, folders and uid claims', async (t) => {
  const [root, canary] = [join(folderFor(t), 'root'), folderFor(t)]
  writeFileSync(join(canary, 'kept'), 'kept')
  const left = await predecessor(t, root, canary)
  await sweep(root)
  for (const path of [left.run, ...left.parents]) assert.ok(existsSync(path), 'it lives')
  assert.ok(runs(left.pid))
  await kill(left)
  const { removed, stuck } = await sweep(root)
  if (isRoot) assert.ok(!runs(left.pid))
  else process.kill(left.pid, 'SIGKILL')
  assert.deepEqual(stuck, [])
  assert.ok(removed.includes(left.run))
  for (const path of [left.run, ...left.parents]) assert.ok(!existsSync(path), path)
  assert.deepEqual(readdirSync(claimsFolder(root)), [])
  assert.equal(readFileSync(join(canary, 'kept'), 'utf8'), 'kept', 'links are removed, not followed')
})

test('concurrent janitors remove the same leftovers without errors and leave a live owner alone', async (t) => {
  const [root, canary] = [join(folderFor(t), 'root'), folderFor(t)]
  const [dead, alive] = [await predecessor(t, root, canary), await predecessor(t, root, canary)]
  await kill(dead)
  const swept = await Promise.all([sweep(root), sweep(root), sweep(root), sweep(root)])
  assert.deepEqual(
    swept.flatMap(({ stuck }) => stuck),
    [],
  )
  assert.ok(!existsSync(dead.run) && existsSync(alive.run))
  for (const parent of dead.parents) assert.ok(!existsSync(parent), parent)
  for (const parent of alive.parents) assert.ok(existsSync(parent), parent)
  assert.ok(runs(alive.pid))
  if (!isRoot) process.kill(dead.pid, 'SIGKILL')
  await kill(alive)
  await sweep(root)
  if (!isRoot) process.kill(alive.pid, 'SIGKILL')
  assert.deepEqual(
    readdirSync(root).filter((name) => name !== 'uids'),
    [],
  )
})

test('the janitor keeps unknown folders, owners in other pid namespaces, and foreign paths in a dead owner’s cgroup list', async (t) => {
  const root = folderFor(t)
  const [pid, start, boot, namespace, part] = ownName().split('-')
  const elsewhere = `run-${[pid, start, boot, 'zzz', part].join('-')}`
  const dead = `run-${[2 ** 22 + 1, start, boot, namespace, part].join('-')}`
  const foreign = join(root, 'foreign')
  for (const name of [elsewhere, dead, 'run-x', 'notes', 'foreign']) mkdirSync(join(root, name))
  const named = [foreign, 'relative', join(foreign, 'gantry-other'), '/'].join('\n')
  writeFileSync(join(root, dead, 'cgroups'), named)
  mkdirSync(join(foreign, 'gantry-other'))
  assert.deepEqual(await sweptFrom(root), [join(root, dead)])
  assert.deepEqual(readdirSync(root).sort(), ['foreign', 'notes', 'run-x', elsewhere].sort())
  assert.deepEqual(readdirSync(foreign), ['gantry-other'])
})

test('the janitor removes nothing when the root does not exist', async (t) => {
  assert.deepEqual(await sweptFrom(join(folderFor(t), 'absent')), [])
})
