import assert from 'node:assert/strict'
import { globSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import { createProcessRuntime, type Program, type Runtime } from '@gantry/sandbox'
import { shareOf } from './share.ts'

const limits: SandboxLimits = {
  wallMs: 60_000,
  cpuMs: 20_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const never = new AbortController().signal

async function inRuntime(work: (runtime: Runtime, root: string) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'gantry-soak-'))
  const runtime = createProcessRuntime({ root })
  try {
    await work(runtime, root)
  } finally {
    await runtime.close()
    rmSync(root, { recursive: true, force: true })
  }
}

async function runOne(runtime: Runtime, program: Program): Promise<string> {
  const sandbox = await runtime.open({ limits, network: 'none' }, never)
  try {
    const { exit, stdout } = await sandbox.run({ program }, never)
    assert.deepEqual(exit, { code: 0 })
    return new TextDecoder().decode(stdout.bytes)
  } finally {
    await sandbox.dispose()
  }
}

/** Resources of this process: descriptors, children, control groups, mounts of its runtime; other campaigns mount, too. */
function traces(root: string): { readonly [what: string]: number } {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1').split(' ').filter(Boolean)
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    children: children.length,
    groups: globSync(`/sys/fs/cgroup/**/gantry-${process.pid}-*/*/`).length,
    mounts: readFileSync('/proc/self/mountinfo', 'latin1')
      .split('\n')
      .filter((line) => line.includes(root) || /^(?:\S+ ){4}\/(?:newroot|oldroot|gantry)[/ ]/.test(line)).length,
  }
}

test('200 concurrent sandboxes all return their own output', async () => {
  await inRuntime(async (runtime) => {
    const numbers = Array.from({ length: 200 }, (_, index) => index)
    const answers = await Promise.all(
      numbers.map((n) => runOne(runtime, { kind: 'script', script: `sleep 0.5; echo ${n}` })),
    )
    assert.deepEqual(
      answers,
      numbers.map((n) => `${n}\n`),
    )
  })
})

const inSequence = shareOf(2_000)

test(`${inSequence} sandboxes one after another leave nothing behind`, async () => {
  await inRuntime(async (runtime, root) => {
    for (let n = 0; n < 50; n += 1) await runOne(runtime, { kind: 'argv', argv: ['/bin/true'] })
    globalThis.gc?.()
    const before = traces(root)
    const folders = readdirSync(join(root, readdirSync(root).find((name) => name.startsWith('run-')) ?? '')).length
    const heap = process.memoryUsage().heapUsed
    for (let n = 0; n < inSequence; n += 1) await runOne(runtime, { kind: 'argv', argv: ['/bin/true'] })
    globalThis.gc?.()
    assert.deepEqual(traces(root), before)
    assert.equal(
      readdirSync(join(root, readdirSync(root).find((name) => name.startsWith('run-')) ?? '')).length,
      folders,
    )
    assert.ok(process.memoryUsage().heapUsed < heap + 20_000_000, 'the heap grew by more than 10 KB a sandbox')
  })
})
