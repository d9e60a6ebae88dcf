import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  binary,
  groupsPlan,
  hostPlan,
  launch,
  noGroupsHere,
  noSandbox,
  place,
  processesWith,
  runOn,
  sandboxPlan,
  until,
} from './launcher.fixture.ts'
import type { LaunchPlan } from './launcher.ts'

const owner = join(import.meta.dirname, 'owner-death.fixture.ts')

/** A process of its own that runs a script in a sandbox; resolves with it and its supervisor's pid when the script is up. */
async function ownerOf(plan: LaunchPlan, script: string): Promise<{ child: ChildProcess; supervisor: number }> {
  const child = spawn(process.execPath, [owner, binary, JSON.stringify(plan), script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [chunk] = await once(child.stdout, 'data')
  return { child, supervisor: Number(chunk) }
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('when the owner process is killed, its sandbox processes, control groups and folders are removed', {
  skip: noGroupsHere,
}, async () => {
  const mark = `36${process.pid}`
  const folder = join(place, 'folder-of-killed')
  mkdirSync(join(folder, 'deep/er'), { recursive: true })
  const { plan, parents } = groupsPlan({ memoryBytes: 64 * 2 ** 20, pids: 30 })
  const script = `setsid sh -c "trap '' TERM HUP; sleep ${mark}; :" & echo up; sleep ${mark}`
  const { child, supervisor } = await ownerOf(sandboxPlan({ cgroups: plan, folders: [folder] }), script)
  assert.notDeepEqual(processesWith(mark), [])
  child.kill('SIGKILL')
  await until(() => !isThere(supervisor))
  assert.deepEqual(processesWith(mark), [])
  for (const gone of [...plan.folders, ...parents, folder]) assert.equal(existsSync(gone), false, gone)
})

test('without a sandbox too, all descendants of a program die with the owner process', {
  skip: noSandbox,
}, async () => {
  const mark = `37${process.pid}`
  const plan = hostPlan()
  const script = `(setsid sh -c "trap '' TERM HUP; sleep ${mark}; :" &); echo up; sleep ${mark}`
  const { child, supervisor } = await ownerOf(plan, script)
  assert.notDeepEqual(processesWith(mark), [])
  child.kill('SIGKILL')
  await until(() => !isThere(supervisor))
  assert.deepEqual(processesWith(mark), [])
  assert.equal(existsSync(plan.workspace), false)
})

test('a supervisor that gets SIGTERM kills the program and removes the workspace', { skip: noSandbox }, async () => {
  const mark = `38${process.pid}`
  const plan = hostPlan()
  const launched = await launch(plan)
  const run = runOn(
    launched,
    { script: `echo up; sleep ${mark}` },
    { onOutput: () => process.kill(launched.pid, 'SIGTERM') },
  )
  await assert.rejects(run, { code: 'BACKEND_FAILED' })
  assert.equal((await launched.ended).reason, 'killed')
  assert.deepEqual([processesWith(mark), existsSync(plan.workspace)], [[], false])
})

test('when the supervisor is killed the program dies with it, and folders that may be left are reported', {
  skip: noSandbox,
}, async () => {
  const folder = join(place, 'left-over')
  for (const plan of [sandboxPlan({ folders: [folder] }), hostPlan({ folders: [folder] })]) {
    const mark = `39${process.pid}`
    const launched = await launch(plan)
    const onOutput = (): void => void process.kill(launched.pid, 'SIGKILL')
    await assert.rejects(runOn(launched, { script: `echo up; sleep ${mark}` }, { onOutput }), {
      code: 'BACKEND_FAILED',
    })
    await until(() => processesWith(mark).length === 0)
    assert.deepEqual((await launched.ended).left, [folder])
  }
})
