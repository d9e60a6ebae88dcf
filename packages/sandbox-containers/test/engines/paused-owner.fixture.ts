import { createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { pauseIdle } from './idle-pause.fixture.ts'
import { limits } from './limits.fixture.ts'

/** Opens two sandboxes, pauses them and prints their ids; for a test that kills this process. */
const [, , kind = '', socket = '', root = ''] = process.argv
const { signal } = new AbortController()
const runtime = (kind === 'gvisor' ? createGvisorRuntime : createDockerRuntime)({ socket, root, pause: true })
for (let count = 0; count < 2; count += 1) {
  const sandbox = await runtime.open({ language: 'python', limits, network: 'none' }, signal)
  await pauseIdle(sandbox)
  process.stdout.write(`${sandbox.id}\n`)
}
setInterval(() => undefined, 60_000)
