import { ToolError } from '@gantry/contract'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { Runtime } from '@gantry/sandbox'
import { createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { limits } from './limits.fixture.ts'

/** Runs a program in each runtime of an engine, and prints what it said and why a network is refused; for tests that start it as another user or in another place. */
const [, , socket = ''] = process.argv
const { signal } = new AbortController()
const origin = 'http://127.0.0.1:9'
const egress = createEgressGuard({ allow: [{ origin, private: true }] })
const found: object[] = []
for (const runtime of [createDockerRuntime({ socket }), createGvisorRuntime({ socket })]) {
  try {
    found.push({ kind: runtime.kind, ...(await use(runtime)) })
  } catch (error) {
    if (!ToolError.is(error)) throw error
    found.push({ kind: runtime.kind, code: error.code, message: error.message })
  }
  await runtime.close()
}
await egress.close()
process.stdout.write(JSON.stringify(found))

async function use(runtime: Runtime): Promise<object> {
  const sandbox = await runtime.open({ limits, network: 'none' }, signal)
  const { stdout } = await sandbox.run({ program: { kind: 'script', script: 'echo hello' } }, signal)
  await sandbox.dispose()
  const dial = { egress, owner: 'test' }
  const refusal = runtime.refuses({ limits, network: { allow: [origin] }, dial })
  return { printed: Buffer.from(stdout.bytes).toString(), refused: refusal?.remedy }
}
