import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Container } from '../engines/engine.ts'
import { type CgroupSources, cgroupSources } from './cgroup-figures.ts'
import { superviseContainer } from './container-supervisor.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gantry-supervisor-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const limits: SandboxLimits = {
  wallMs: 60_000,
  cpuMs: 2_000,
  memoryBytes: 2 ** 26,
  pids: 16,
  diskBytes: 2 ** 20,
  stdoutBytes: 1_024,
  stderrBytes: 1_024,
}

/** The control group of a container, and what its processes have used so far. */
function group(): { readonly sources: CgroupSources; use(cpuMs: number): void } {
  let totalMs = 0
  const use = (cpuMs: number): void => {
    totalMs += cpuMs
    writeFileSync(join(folder, 'one/cpu.stat'), `usage_usec ${totalMs * 1_000}\n`)
  }
  mkdirSync(join(folder, 'one'))
  mkdirSync(join(folder, '42'))
  writeFileSync(join(folder, '42/cgroup'), '0::/one\n')
  use(0)
  const sources = cgroupSources(42, { processes: folder, groups: folder })
  assert.ok(sources)
  return { sources, use }
}

/** A container that runs until it is removed, or ends by itself. */
function running(
  died = Promise.withResolvers<{ readonly kind: 'exited'; readonly code: number }>(),
  channel = new PassThrough(),
): Container {
  return {
    channel,
    pid: 42,
    stderr: () => '',
    isOutOfMemory: () => false,
    died: died.promise,
    async remove() {
      died.resolve({ kind: 'exited', code: 137 })
      return []
    },
  }
}

test('each run of a session has the whole limit of processor time, and reports only its own', async () => {
  const { sources, use } = group()
  const supervisor = superviseContainer(running(), sources, limits)
  // An interpreter that was started ahead for the first run is counted with it.
  use(300)
  for (const [round, expectedMs] of [1_100, 800, 800, 800, 800].entries()) {
    supervisor.begin(limits.wallMs)
    use(800)
    const { figures, hits } = await supervisor.measure()
    assert.deepEqual([figures.cpuNs, hits], [expectedMs * 1e6, []], `run ${round + 1}`)
  }
  supervisor.kill()
  await supervisor.ended
})

test('a later run of a session that uses more than the limit by itself is ended by it', async () => {
  const { sources, use } = group()
  const supervisor = superviseContainer(running(), sources, limits)
  supervisor.begin(limits.wallMs)
  use(1_500)
  await supervisor.measure()
  supervisor.begin(limits.wallMs)
  use(2_000)
  const { reason, limit, figures } = await supervisor.ended
  assert.deepEqual([reason, limit, figures.cpuNs], ['watch', 'cpuMs', 2_000 * 1e6])
})

test('a limit that ends everything at once is seen by the end of the streams, before the control group is removed', async () => {
  const { sources } = group()
  const died = Promise.withResolvers<{ readonly kind: 'exited'; readonly code: number }>()
  const channel = new PassThrough()
  const supervisor = superviseContainer(running(died, channel), sources, limits)
  supervisor.begin(limits.wallMs)
  writeFileSync(join(folder, 'one/pids.events'), 'max 1\n')
  const closed = once(channel, 'close')
  channel.destroy()
  await closed
  rmSync(join(folder, 'one'), { recursive: true })
  died.resolve({ kind: 'exited', code: 2 })
  const { reason, hits } = await supervisor.ended
  assert.deepEqual([reason, hits], ['exited', ['pids']])
})
