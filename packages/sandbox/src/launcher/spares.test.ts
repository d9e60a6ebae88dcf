import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { binary, calm, hostPlan, processesWith, runOn, text, until } from './launcher.fixture.ts'
import { createSpares, type Spares, startLauncher } from './launcher.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

/** Spares of which one waits. */
async function ready(): Promise<Spares> {
  const spares = createSpares(binary)
  assert.equal(spares.take(), undefined)
  assert.equal(spares.take(), undefined, 'nothing is started for one that comes alone')
  await turn()
  return spares
}

test('from the second sandbox on a spare launcher is ready and runs a sandbox', { skip }, async () => {
  const spares = await ready()
  const child = spares.take()
  assert.ok(child?.pid !== undefined && child.exitCode === null)
  const options = { signal: calm, startMs: 20_000, spares: { ...spares, take: () => child } }
  const launched = await startLauncher('/no/such/launcher', hostPlan(), options)
  assert.equal(launched.pid, child.pid)
  assert.equal(text((await runOn(launched, { script: 'echo hello' })).stdout), 'hello\n')
  assert.equal((await launched.dispose()).left.length, 0)
  await spares.close()
})

test('a spare launcher that died is not given out', { skip }, async () => {
  const spares = await ready()
  const [pid = 0, ...others] = processesWith(binary)
  assert.deepEqual(others, [])
  process.kill(pid, 'SIGKILL')
  await until(() => !existsSync(`/proc/${pid}`))
  assert.equal(spares.take(), undefined)
  await spares.close()
})

test('closing ends the spare launcher, and none is started afterwards', { skip }, async () => {
  const spares = await ready()
  assert.equal(processesWith(binary).length, 1)
  await spares.close()
  assert.equal(spares.take(), undefined)
  await turn()
  assert.deepEqual([spares.take(), processesWith(binary)], [undefined, []])
})

test('a spare launcher that fails to start does not affect the next take', { skip }, async () => {
  const spares = createSpares('/no/such/launcher')
  for (let count = 0; count < 3; count += 1) {
    assert.equal(spares.take(), undefined)
    await turn()
  }
  await spares.close()
})
