import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Runtime } from '@gantry/sandbox'
import { createDockerRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { startDocker } from '../../../../scripts/engines/docker.ts'
import { api, commitImage, copyImage } from './docker-api.fixture.ts'
import { disguises, dockerSocket } from './engines.fixture.ts'
import { limits } from './limits.fixture.ts'

const signal = AbortSignal.timeout(300_000)
const spec = { limits, network: 'none' } as const

async function runOnce(runtime: Runtime): Promise<string> {
  const sandbox = await runtime.open(spec, signal)
  try {
    const { stdout } = await sandbox.run({ program: { kind: 'script', script: 'echo ok' } }, signal)
    return Buffer.from(stdout.bytes).toString()
  } finally {
    await sandbox.dispose()
  }
}

test('an owner whose image was replaced and pruned goes on with the new image of that name', async () => {
  const socket = dockerSocket()
  const image = 'gantry-test/replaced:latest'
  await commitImage(socket, image, ['LABEL round=1'])
  const runtime = createDockerRuntime({ socket, image })
  try {
    assert.equal(await runOnce(runtime), 'ok\n')
    const first = runtime.image?.()
    await commitImage(socket, image, ['LABEL round=2'])
    await api(socket, 'DELETE', `/images/${first}`)
    assert.equal(await runOnce(runtime), 'ok\n')
    assert.notEqual(runtime.image?.(), first)
    // Gone altogether: the reason and the remedy, also the second time.
    await api(socket, 'DELETE', `/images/${encodeURIComponent(image)}`)
    for (let round = 0; round < 2; round += 1) {
      await assert.rejects(runOnce(runtime), { code: 'RUNTIME_UNAVAILABLE', message: /has no image.*Load it into/ })
    }
    await commitImage(socket, image, ['LABEL round=3'])
    assert.equal(await runOnce(runtime), 'ok\n')
  } finally {
    await runtime.close()
    await api(socket, 'DELETE', `/images/${encodeURIComponent(image)}`).catch(() => undefined)
  }
})

test('an OCI runtime that another program replaced is refused once the engine has loaded its configuration again', async () => {
  const server = await startDocker()
  try {
    await copyImage(dockerSocket(), server.socket, 'gantry/sandbox:standard')
    const runtime = createGvisorRuntime({ socket: server.socket })
    try {
      assert.equal(await runOnce(runtime), 'ok\n')
      const folder = dirname(server.socket)
      const config = join(folder, 'daemon.json')
      const { runtimes } = JSON.parse(readFileSync(config, 'utf8')) as { runtimes: { [name: string]: object } }
      const replaced = { ...runtimes, runsc: runtimes[disguises.runcClaimingRunsc] }
      writeFileSync(config, JSON.stringify({ runtimes: replaced }))
      process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 'SIGHUP')
      const refusal = /runs programs on the kernel of this machine, which gvisor must not/
      const until = performance.now() + 20_000
      let message = ''
      // Until the event of the reload arrives, a start fails on the other program, or is still one of gVisor.
      while (!refusal.test(message) && performance.now() < until) {
        message = await runOnce(runtime).catch((error: Error) => error.message)
        await pause(50)
      }
      assert.match(message, refusal)
    } finally {
      await runtime.close()
    }
  } finally {
    await server.stop()
  }
})
