import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/sandbox'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { limits } from './limits.fixture.ts'
import { qemuOptions } from './machines.fixture.ts'

const root = mkdtempSync(join(tmpdir(), 'gantry-machine-faults-'))
const signal = AbortSignal.timeout(800_000)
const runtime = createQemuRuntime({ ...qemuOptions(), root })
after(async () => {
  await runtime.close()
  rmSync(root, { recursive: true, force: true })
})

/** Processes of QEMU that descend from this one, or from one that it started and that is gone. */
function machines(): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => isOurs(pid))
    .map(Number)
}

/** The folder of its sockets is bound into its namespaces, so that its own mounts tell whose it is. */
function isOurs(pid: string): boolean {
  try {
    const isQemu = readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('qemu-system')
    return isQemu && readFileSync(`/proc/${pid}/mountinfo`, 'latin1').includes(root.replace(tmpdir(), ''))
  } catch {
    return false
  }
}

async function untilGone(): Promise<void> {
  while (machines().length > 0) {
    signal.throwIfAborted()
    await pause(50, undefined, { signal })
  }
}

/** Runs a program that stays, and does something to its machine as soon as it runs. */
async function whileRunning(of: Runtime, wallMs: number, work: (pids: readonly number[]) => void) {
  const sandbox = await of.open({ limits: { ...limits, wallMs }, network: 'none' }, signal)
  try {
    const onOutput = (): void => work(machines())
    return await sandbox.run({ program: { kind: 'script', script: 'echo runs; sleep 600' }, onOutput }, signal)
  } finally {
    await sandbox.dispose()
  }
}

function sendAll(pids: readonly number[], name: 'SIGKILL' | 'SIGSTOP'): void {
  assert.ok(pids.length > 0, 'There is no machine to fail.')
  for (const pid of pids) process.kill(pid, name)
}

test('a program whose QEMU is killed ends with BACKEND_FAILED, and nothing of it is left', async () => {
  const run = whileRunning(runtime, limits.wallMs, (pids) => sendAll(pids, 'SIGKILL'))
  await assert.rejects(run, (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED')
  await untilGone()
})

test('a program whose QEMU is stopped ends by its wall limit, and nothing of it is left', async () => {
  const outcome = await whileRunning(runtime, 3_000, (pids) => sendAll(pids, 'SIGSTOP'))
  assert.equal(outcome.hit, 'wallMs')
  await untilGone()
})

test('after such faults the next sandbox runs its program', async () => {
  const sandbox = await runtime.open({ limits, network: 'none' }, signal)
  const { exit } = await sandbox.run({ program: { kind: 'argv', argv: ['/bin/true'] } }, signal)
  await sandbox.dispose()
  assert.deepEqual(exit, { code: 0 })
})

test('owners that are killed leave no machine, and the next one removes their folders', async () => {
  const count = Number(process.env.GANTRY_KILLED_OWNERS ?? '2')
  const own = readdirSync(root).toSorted()
  for (let n = 0; n < count; n += 1) await killOwner()
  await untilGone()
  const next = createQemuRuntime({ ...qemuOptions(), root })
  const sandbox = await next.open({ limits, network: 'none' }, signal)
  await sandbox.dispose()
  await next.close()
  assert.deepEqual(readdirSync(root).toSorted(), own)
})

/** Kills a process with -9 while its program runs in a machine. */
async function killOwner(): Promise<void> {
  const file = join(import.meta.dirname, 'owner.fixture.ts')
  const owner = spawn(process.execPath, [file, root], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(owner, 'exit')
  try {
    let hasRun = false
    for await (const line of createInterface({ input: owner.stdout })) {
      hasRun = line === 'runs'
      break
    }
    assert.ok(hasRun, 'The owner ended by itself.')
    assert.ok(machines().length > 0, 'A running machine is not seen.')
  } finally {
    owner.kill('SIGKILL')
    await ended
  }
}
