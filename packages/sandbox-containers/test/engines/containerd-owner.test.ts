import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createContainerdRuntime } from '@gantry/sandbox-containers'
import { containerd } from './engines.fixture.ts'

const { signal } = new AbortController()

/** Processes of a container, by the name of their control group. */
function processesOf(containerId: string): readonly string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cgroup`, 'latin1').includes(containerId)
    } catch {
      return false
    }
  })
}

test('containerd: what runs when its owner is killed with -9 ends by itself, and the next owner removes its record', async () => {
  const root = mkdtempSync(join(tmpdir(), 'gantry-owner-'))
  const file = join(import.meta.dirname, 'owner.fixture.ts')
  const owner = spawn(process.execPath, [file, 'containerd', 'run', containerd().socket, root], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [id] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string]
    const containerId = `gantry-${Buffer.from(id).toString('hex')}`
    assert.ok(processesOf(containerId).length > 1)
    const gone = once(owner, 'exit')
    owner.kill('SIGKILL')
    await gone
    const until = performance.now() + 30_000
    while (processesOf(containerId).length > 0 && performance.now() < until) await pause(50)
    assert.deepEqual(processesOf(containerId), [])
    const next = createContainerdRuntime({ ...containerd(), root })
    await next.probe(signal).finally(() => next.close())
    assert.deepEqual(
      readdirSync(root).filter((name) => name.startsWith('run-')),
      [],
    )
  } finally {
    owner.kill('SIGKILL')
    rmSync(root, { recursive: true, force: true })
  }
})
