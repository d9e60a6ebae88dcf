import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { binary, calm, hostPlan, processesWith, runOn, text, until } from './launcher.fixture.ts'
import { startLauncher } from './launcher.ts'
import { createSpares, type Spares } from './spares.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

/** Spares of which one waits. */
async function ready(): Promise<Spares> {
  const spares = createSpares(binary)
  assert.equal(spares.take(), undefined)
  assert.equal(spares.take(), undefined, 'nothing is started for one that comes alone')
  await turn()
  return spares
}

test('from the second on a launcher waits, and runs a sandbox like any other', { skip }, async () => {
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

test('one that died while it waited is not given out', { skip }, async () => {
  const spares = await ready()
  const [pid = 0, ...others] = processesWith(binary)
  assert.deepEqual(others, [])
  process.kill(pid, 'SIGKILL')
  await until(() => !existsSync(`/proc/${pid}`))
  assert.equal(spares.take(), undefined)
  await spares.close()
})

test('closing ends the one that waits, and none is started after', { skip }, async () => {
  const spares = await ready()
  assert.equal(processesWith(binary).length, 1)
  await spares.close()
  assert.equal(spares.take(), undefined)
  await turn()
  assert.deepEqual([spares.take(), processesWith(binary)], [undefined, []])
})

test('a launcher that cannot be started is not missed', { skip }, async () => {
  const spares = createSpares('/no/such/launcher')
  for (let count = 0; count < 3; count += 1) {
    assert.equal(spares.take(), undefined)
    await turn()
  }
  await spares.close()
})
