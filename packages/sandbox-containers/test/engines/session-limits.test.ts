import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Runtime } from '@gantry/sandbox'
import { createContainerdRuntime, createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { containerd, dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const signal = AbortSignal.timeout(300_000)

const runtimes: { readonly [name: string]: () => Runtime } = {
  docker: () => createDockerRuntime({ socket: dockerSocket() }),
  containerd: () => createContainerdRuntime(containerd()),
  gvisor: () => createGvisorRuntime({ socket: dockerSocket() }),
  'gvisor through containerd': () => createGvisorRuntime({ engine: 'containerd', ...containerd() }),
}

const spin = `
import time
until = time.process_time() + 0.8
while time.process_time() < until: pass
return True`

for (const [name, create] of Object.entries(runtimes)) {
  test(`${name}: cpuMs is of each run in a session, not of all of them`, async () => {
    const runtime = create()
    try {
      const spec = { limits: { ...limits, cpuMs: 2_000 }, network: 'none', language: 'python', session: true } as const
      const sandbox = await runtime.open(spec, signal)
      for (let round = 1; round <= 5; round += 1) {
        const outcome = await sandbox.run({ program: { kind: 'code', language: 'python', code: spin } }, signal)
        assert.deepEqual([outcome.hit, outcome.value], [undefined, true], `run ${round}`)
        const { cpuMs = 0 } = outcome.usage
        // The clock of gVisor runs by ticks, ahead of the control group, the more so on a busy machine.
        const least = name.startsWith('gvisor') ? 50 : 400
        assert.ok(cpuMs >= least && cpuMs < 2_000, `run ${round} used ${cpuMs} ms`)
      }
      await sandbox.dispose()
    } finally {
      await runtime.close()
    }
  })
}
