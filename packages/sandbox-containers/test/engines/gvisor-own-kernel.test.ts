import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { Runtime, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createGvisorRuntime } from '@gantry/sandbox-containers'
import { dockerSocket, sealedRunsc } from './engines.fixture.ts'

const signal = AbortSignal.timeout(120_000)

async function withRuntime<T>(
  options: { readonly runtime?: string },
  use: (runtime: Runtime) => Promise<T>,
): Promise<T> {
  const runtime = createGvisorRuntime({ socket: dockerSocket(), ...options })
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

/** A sandbox that may reach one origin. */
async function withNetwork<T>(use: (spec: SandboxSpec) => Promise<T>): Promise<T> {
  const origin = 'http://127.0.0.1:9'
  const egress = createEgressGuard({ allow: [{ origin, private: true }] })
  try {
    return await use({ limits: attackLimits, network: { allow: [origin] }, dial: { egress, owner: 'test' } })
  } finally {
    await egress.close()
  }
}

test('a network is refused, with the reason and the remedy, where runsc does not forward to sockets of the host', async () => {
  await withRuntime({ runtime: sealedRunsc }, async (runtime) => {
    assert.equal((await runtime.probe(signal)).available, true)
    await withNetwork(async (spec) => {
      const { reason, remedy } = runtime.refuses(spec) ?? {}
      assert.match(reason ?? '', /does not forward connections to the socket of the egress proxy/)
      assert.match(remedy ?? '', /--host-uds=open/)
    })
    assert.equal(runtime.refuses({ limits: attackLimits, network: 'none' }), undefined)
  })
})

test('a network is not refused where runsc forwards to sockets of the host', async () => {
  await withRuntime({}, async (runtime) => {
    assert.equal((await runtime.probe(signal)).available, true)
    await withNetwork(async (spec) => assert.equal(runtime.refuses(spec), undefined))
  })
})

const filling = `
count = 0
try:
    for number in range(40):
        file = os.open(f'/tmp/fill-{number}', os.O_CREAT | os.O_WRONLY)
        for _ in range(16): count += os.write(file, bytes(65536))
except OSError: pass
return count`

test('the tmpfs that gVisor has at /tmp holds no more than the limit of the disk', async () => {
  await withRuntime({}, async (runtime) => {
    const diskBytes = 8 * 2 ** 20
    const program = { kind: 'code', language: 'python', code: `import os${filling}` } as const
    const { value } = await runOnce(runtime, { program }, { limits: { ...attackLimits, diskBytes } })
    assert.ok(typeof value === 'number' && value > 0 && value <= diskBytes, `${value} bytes were written`)
  })
})
