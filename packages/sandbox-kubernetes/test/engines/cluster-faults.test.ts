import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/sandbox'
import { createKubernetesRuntime, type KubernetesOptions } from '@gantry/sandbox-kubernetes'
import { startAgentSandbox } from '../../../../scripts/engines/agent-sandbox.ts'
import type { KeptServer } from '../../../../scripts/engines/keeper.ts'
import { startKubernetes } from '../../../../scripts/engines/kubernetes.ts'
import { buildContainerdFlavour } from '../../../../scripts/engines/sandbox-images.ts'
import { standardImage } from './cluster.fixture.ts'

const signal = AbortSignal.timeout(600_000)
const calls = 50
const lanes = 8
const limits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 10_000,
  memoryBytes: 33_554_432,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const program = (script: string) => ({ program: { kind: 'script', script } }) as const

const cluster = await startKubernetes()
await buildContainerdFlavour(cluster.containerd, 'standard')
after(async () => {
  await (await controllerStarted)?.stop()
  await cluster.stop()
})

let controllerStarted: Promise<KeptServer> | undefined

/** Installed after the first tests, which need a cluster without it. */
function agentSandbox(): Promise<KeptServer> {
  controllerStarted ??= startAgentSandbox(cluster)
  return controllerStarted
}

async function withRuntime<T>(
  use: (runtime: Runtime) => Promise<T>,
  mode: NonNullable<KubernetesOptions['mode']> = 'pods',
): Promise<T> {
  const runtime = createKubernetesRuntime({ kubeconfig: cluster.kubeconfig, image: standardImage, mode })
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

interface Pod {
  readonly metadata: { readonly name: string }
  readonly status: { readonly phase?: string }
}

async function pods(): Promise<readonly Pod[]> {
  const { items } = (await cluster.ask('GET', '/api/v1/namespaces/default/pods')) as { items: readonly Pod[] }
  return items
}

async function untilPods(isDone: (all: readonly Pod[]) => boolean): Promise<readonly Pod[]> {
  for (;;) {
    const all = await pods()
    if (isDone(all)) return all
    signal.throwIfAborted()
    await pause(100)
  }
}

/** One call as a pool makes it; how it ended: its exit code, the limit that was hit, or the code of its error. */
async function callOnce(runtime: Runtime, n: number, onStart: () => void): Promise<string> {
  try {
    const sandbox = await runtime.open({ limits, network: 'none' }, signal)
    try {
      const { exit, hit } = await sandbox.run(
        { ...program(`echo ${n}; sleep 0.5; exit ${n}`), onOutput: onStart },
        signal,
      )
      return hit ?? JSON.stringify(exit)
    } finally {
      await sandbox.dispose()
    }
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    return error.code
  }
}

/** Makes 50 calls, `lanes` at a time, with a fault when the first ones run: each has one outcome, and none runs twice. */
async function storm(runtime: Runtime, fault: () => Promise<void>): Promise<void> {
  const ends: string[] = []
  const runs: number[] = Array.from({ length: calls }, () => 0)
  let next = 0
  const started = Promise.withResolvers<void>()
  let running = 0
  const lane = async (): Promise<void> => {
    for (let n = next++; n < calls; n = next++) {
      ends[n] = await callOnce(runtime, n, () => {
        runs[n] = (runs[n] ?? 0) + 1
        running += 1
        if (running === lanes) started.resolve()
      })
    }
  }
  const all = Promise.all(Array.from({ length: lanes }, lane))
  await started.promise
  await fault()
  await all
  assert.equal(Object.keys(ends).length, calls)
  const wrong = ends.filter(
    (end, n) =>
      end !== `{"code":${n}}` && !['BACKEND_FAILED', 'RUNTIME_UNAVAILABLE', 'SANDBOX_INIT_FAILED'].includes(end),
  )
  assert.deepEqual(wrong, [])
  assert.ok(
    runs.every((count) => count <= 1),
    JSON.stringify(runs),
  )
  assert.equal(await callOnce(runtime, 7, () => undefined), '{"code":7}')
}

async function killAndRestart(server: KeptServer): Promise<void> {
  server.kill()
  await pause(500)
  await server.restart()
}

for (const [what, server] of [
  ['API server', cluster.api],
  ['kubelet', cluster.kubelet],
] as const) {
  test(`the ${what} is killed and restarted while 50 calls run: 50 outcomes, and no pod is left`, async () => {
    await withRuntime((runtime) => storm(runtime, () => killAndRestart(server)))
    await untilPods((left) => left.length === 0)
  })
}

test('without agent-sandbox its mode is refused with the reason and what to do', async () => {
  await withRuntime(async (runtime) => {
    const probe = await runtime.probe(signal)
    assert.ok(!probe.available)
    assert.match(probe.reason, /does not serve extensions\.agents\.x-k8s\.io\/v1beta1: agent-sandbox/)
    assert.match(probe.remedy, /^Install agent-sandbox v0\.5\.6 or newer, or use the mode `pods`/)
  }, 'agent-sandbox')
})

test('the controller of agent-sandbox is killed and restarted while 50 calls run by claims: 50 outcomes, and no claim or pod is left', async () => {
  const controller = await agentSandbox()
  await withRuntime((runtime) => storm(runtime, () => killAndRestart(controller)), 'agent-sandbox')
  await untilPods((left) => left.length === 0)
  const path = '/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims'
  assert.deepEqual(((await cluster.ask('GET', path)) as { items: readonly object[] }).items, [])
})

test('the kubelet is frozen: what runs ends by its wall limit, and no pod is left when it runs again', async () => {
  await withRuntime(async (runtime) => {
    const sandbox = await runtime.open({ limits: { ...limits, wallMs: 3_000 }, network: 'none' }, signal)
    const started = Promise.withResolvers<void>()
    const run = sandbox.run({ ...program('echo runs; sleep 600'), onOutput: () => started.resolve() }, signal)
    await started.promise
    cluster.kubelet.pause()
    try {
      assert.equal((await run).hit, 'wallMs')
      await sandbox.dispose()
    } finally {
      cluster.kubelet.resume()
    }
    assert.equal(await callOnce(runtime, 3, () => undefined), '{"code":3}')
  })
  await untilPods((left) => left.length === 0)
})

test('an owner is killed: its pods end by themselves, and the next owner removes them', async () => {
  const owner = spawn(
    process.execPath,
    [new URL('owner.fixture.ts', import.meta.url).pathname, cluster.kubeconfig, standardImage],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [line] = await once(createInterface({ input: owner.stdout }), 'line')
  assert.equal(line, 'running')
  assert.equal((await pods()).filter(({ status }) => status.phase === 'Running').length, 2)
  owner.kill('SIGKILL')
  await untilPods((all) => all.every(({ status }) => status.phase === 'Failed' || status.phase === 'Succeeded'))
  await withRuntime((runtime) => callOnce(runtime, 0, () => undefined))
  await untilPods((left) => left.length === 0)
})
