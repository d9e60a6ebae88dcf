import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { cgroupSources, readCpuNs } from '../../src/containers/cgroup-figures.ts'
import { api } from './docker-api.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'

const root = mkdtempSync(join(tmpdir(), 'gantry-stopped-'))
after(() => rmSync(root, { recursive: true, force: true }))

test('a program that spins while its owner is stopped is ended by the kernel some seconds after its limit', async () => {
  const fixture = join(import.meta.dirname, 'stopped-owner.fixture.ts')
  const owner = spawn(process.execPath, [fixture, dockerSocket(), root], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [id] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string]
    owner.kill('SIGSTOP')
    const { State } = (await api(dockerSocket(), 'GET', `/containers/gantry-${id}/json`)) as { State: { Pid: number } }
    const sources = cgroupSources(State.Pid)
    assert.ok(sources)
    const until = performance.now() + 60_000
    let [last, still] = [0, 0]
    // A program that spins on a busy machine may get no processor for a second, but not for three.
    for (let now = readCpuNs(sources) ?? 0; still < 3; now = readCpuNs(sources) ?? 0) {
      assert.ok(performance.now() < until, `The program still spins after ${now / 1e9} s.`)
      still = last > 0 && now - last < 10e6 ? still + 1 : 0
      last = now
      await pause(1_000)
    }
    assert.ok(last > 4e9 && last < 9e9, `It was ended after ${last / 1e9} s of processor time.`)
  } finally {
    owner.kill('SIGKILL')
    await once(owner, 'exit')
  }
})
