import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { binary, calm, hostPlan, jobOf, launch, noGroups, runOn } from './launcher.fixture.ts'
import { startLauncher } from './launcher.ts'

const skip = process.platform === 'linux' ? false : 'needs Linux'

test('a launcher that cannot start fails with SANDBOX_INIT_FAILED and the cause', { skip }, async () => {
  const fails = (argv: readonly [string, ...string[]], message: RegExp) =>
    assert.rejects(launch(hostPlan({ argv })), (error) => isInitFailure(error, message))
  await fails(['/no/such/bwrap'], /no\/such\/bwrap: No such file/)
  await fails([binary, 'init', '--host', '/no/such/folder'], /\/no\/such\/folder: No such file/)
  await fails(['/bin/sh', '-c', 'echo cannot make a namespace >&2; exit 1'], /cannot make a namespace/)
  await fails(['/bin/sh', '-c', 'printf "\\10\\0\\0\\0\\0" >&3; sleep 60'], /did not report protocol version/)
  await assert.rejects(startLauncher('/no/such/launcher', hostPlan(), { signal: calm, startMs: 1_000 }), (error) =>
    isInitFailure(error, /cannot be run/),
  )
  const missing = { ...noGroups, settings: [['/sys/fs/cgroup/no/such/file', '1']] as const }
  await assert.rejects(launch(hostPlan({ cgroups: missing })), (error) => isInitFailure(error, /no\/such\/file/))
})

test('a start that times out or is cancelled is aborted', { skip }, async () => {
  const plan = hostPlan({ argv: ['/bin/sleep', '60'] })
  await assert.rejects(startLauncher(binary, plan, { signal: calm, startMs: 50 }), (error) =>
    isInitFailure(error, /not ready after 50 ms/),
  )
  assert.equal(existsSync(plan.workspace), false)
  const controller = new AbortController()
  const start = startLauncher(binary, hostPlan({ argv: ['/bin/sleep', '60'] }), {
    signal: controller.signal,
    startMs: 9_000,
  })
  controller.abort(new Error('changed my mind'))
  await assert.rejects(start, /changed my mind/)
})

test('an init that violates the protocol during a run fails it with BACKEND_FAILED', { skip }, async () => {
  const script = 'printf "\\1\\0\\0\\0\\0011" >&3; sleep 0.1; printf "\\77\\0\\0\\0\\0" >&3; sleep 60'
  const launched = await launch(hostPlan({ argv: ['/bin/sh', '-c', script] }))
  await assert.rejects(
    runOn(launched, { script: 'true' }),
    (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED',
  )
  assert.equal((await launched.dispose()).reason, 'killed')
})

test('an init that dies during a run fails it with BACKEND_FAILED', { skip }, async () => {
  const launched = await launch(hostPlan())
  const run = runOn(launched, { script: 'kill -9 $PPID; sleep 60' })
  await assert.rejects(run, (error) => ToolError.is(error) && error.code === 'BACKEND_FAILED')
  assert.deepEqual((await launched.dispose()).left, [])
})

test('a concurrent run is refused, and so are arguments that cannot be passed', { skip }, async () => {
  const launched = await launch(hostPlan())
  const first = runOn(launched, { script: 'sleep 0.1' })
  await assert.rejects(runOn(launched, { script: 'true' }), { code: 'INTERNAL' })
  await first
  await launched.dispose()
  const other = await launch(hostPlan())
  await assert.rejects(runOn(other, { steps: [{ argv: ['a\0b'], env: {} }] }), { code: 'INPUT_INVALID' })
  await assert.rejects(runOn(other, { steps: [{ argv: ['a'.repeat(1_100_000)], env: {} }] }), { code: 'INPUT_INVALID' })
  await other.dispose()
})

test('a second dispose returns the same end, and a later run fails', { skip }, async () => {
  const launched = await launch(hostPlan())
  const [first, second] = await Promise.all([launched.dispose(), launched.dispose()])
  assert.deepEqual(first, second)
  assert.equal(first.reason, 'killed')
  await assert.rejects(launched.run(jobOf({ script: 'true' }), { wallMs: 100, signal: calm }), {
    code: 'BACKEND_FAILED',
  })
})
function isInitFailure(error: unknown, message: RegExp): boolean {
  return ToolError.is(error) && error.code === 'SANDBOX_INIT_FAILED' && message.test(error.message)
}
