import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { afterEach, test } from 'node:test'
import { tracesOfSandboxes } from '@gantry/conformance/internal/attacks/host'
import { spawnChild } from './launched.ts'
import { binary, calm, groupsPlan, hostPlan, launch, noGroupsHere, removeParents, until } from './launcher.fixture.ts'
import { startLauncher } from './launcher.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'
const started: ChildProcess[] = []

afterEach(async () => {
  for (const child of started.splice(0)) {
    child.kill('SIGKILL')
    await until(() => child.exitCode !== null || child.signalCode !== null)
  }
  removeParents()
})

function kept(child: ChildProcess): ChildProcess {
  started.push(child)
  return child
}

function traces(): readonly string[] {
  return tracesOfSandboxes().processes
}

test('two spare launchers that wait for a plan are no trace of a sandbox, but a third one is', { skip }, () => {
  const [, , third] = [1, 2, 3].map(() => kept(spawnChild(binary)))
  assert.deepEqual(traces(), [`${third?.pid} ${binary}`])
})

test('a launcher in use is a trace until its sandbox is disposed', { skip }, async () => {
  const child = kept(spawnChild(binary))
  const before = traces()
  const spares = { take: () => child, close: async () => undefined }
  const launched = await startLauncher(binary, hostPlan(), { signal: calm, startMs: 20_000, spares })
  assert.ok(traces().includes(`${child.pid} ${binary}`))
  await launched.dispose()
  assert.deepEqual([before, traces()], [[], []])
})

test('a launcher that outlived its sandbox is a trace', { skip }, async () => {
  const launched = await launch(hostPlan())
  const init = traces().filter((one) => one !== `${launched.pid} ${binary}`)
  assert.equal(init.length, 1)
  process.kill(launched.pid, 'SIGSTOP')
  process.kill(Number.parseInt(init[0] ?? '', 10), 'SIGKILL')
  try {
    assert.ok(traces().includes(`${launched.pid} ${binary}`))
  } finally {
    process.kill(launched.pid, 'SIGCONT')
    await launched.dispose()
  }
})

test('a launcher with an extra descriptor, an environment or another working directory is a trace', { skip }, () => {
  const file = openSync(binary, 'r')
  const channels = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] as const
  const spoilt = [
    spawn(binary, ['supervise'], { stdio: [...channels, file], env: {}, cwd: '/' }),
    spawn(binary, ['supervise'], { stdio: [...channels], env: { A: '1' }, cwd: '/' }),
    spawn(binary, ['supervise'], { stdio: [...channels], env: {}, cwd: '/tmp' }),
    spawn(binary, ['supervise'], { stdio: ['ignore', 'ignore', 'ignore', 'ignore', 'pipe'], env: {}, cwd: '/' }),
  ].map(kept)
  closeSync(file)
  assert.deepEqual(
    traces(),
    spoilt.map(({ pid }) => `${pid} ${binary}`),
  )
})

test('a launcher in its own control group is a trace', { skip: noGroupsHere }, () => {
  const child = kept(spawnChild(binary))
  const { parents } = groupsPlan({ memoryBytes: 2 ** 20, pids: 4 })
  assert.deepEqual(traces(), [])
  writeFileSync(`${parents[1]}/cgroup.procs`, String(child.pid))
  assert.deepEqual(traces(), [`${child.pid} ${binary}`])
})
