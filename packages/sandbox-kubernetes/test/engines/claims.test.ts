import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { Runtime, Sandbox } from '@gantry/sandbox'
import { createKubernetesRuntime, type KubernetesOptions } from '@gantry/sandbox-kubernetes'
import { parse } from 'yaml'
import { kubeconfig, standardImage } from './cluster.fixture.ts'
import { clusterApi } from './cluster-api.fixture.ts'
import { temporaryFolder } from './temporary-folder.fixture.ts'

const signal = AbortSignal.timeout(600_000)
const api = clusterApi(kubeconfig())
const namespace = `claims-${process.pid}`
const extensions = `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${namespace}`
const paths = {
  pods: `/api/v1/namespaces/${namespace}/pods`,
  claims: `${extensions}/sandboxclaims`,
  pools: `${extensions}/sandboxwarmpools`,
  templates: `${extensions}/sandboxtemplates`,
  sandboxes: `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes`,
  leases: `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
  policies: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`,
} as const
const spec = { limits: attackLimits, network: 'none' } as const
const script = (text: string) => ({ program: { kind: 'script', script: text } }) as const

interface Item {
  readonly metadata: {
    readonly name: string
    readonly labels?: { readonly [name: string]: string }
    readonly ownerReferences?: readonly { readonly kind: string; readonly name: string }[]
  }
  readonly spec: Record<string, unknown>
  readonly status?: {
    readonly phase?: string
    readonly readyReplicas?: number
    readonly sandbox?: { readonly name?: string }
  }
}

async function list(path: string): Promise<readonly Item[]> {
  return ((await api('GET', path)) as { items: readonly Item[] }).items
}

async function until<T>(look: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await look()
    if (isDone(value)) return value
    signal.throwIfAborted()
    await pause(100)
  }
}

/** Nothing that was made for sandboxes is there, once the cluster's garbage collector has run. */
async function untilEmpty(): Promise<void> {
  for (const path of Object.values(paths))
    await until(
      () => list(path),
      ({ length }) => length === 0,
    )
}

async function withRuntime<T>(options: KubernetesOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
  const runtime = createKubernetesRuntime({
    kubeconfig: kubeconfig(),
    image: standardImage,
    mode: 'agent-sandbox',
    namespace,
    ...options,
  })
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

async function withSandbox<T>(runtime: Runtime, use: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const sandbox = await runtime.open(spec, signal)
  try {
    return await use(sandbox)
  } finally {
    await sandbox.dispose()
  }
}

function readyPools(count: number): Promise<readonly Item[]> {
  return until(
    () => list(paths.pools),
    (pools) => pools.length === count && pools.every(({ status }) => status?.readyReplicas === 1),
  )
}

before(() =>
  api('POST', '/api/v1/namespaces', {
    metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  }),
)
after(() => api('DELETE', `/api/v1/namespaces/${namespace}`))

test('a sandbox is a claim on a pod that waited, by one template and one uid for each pod, and the lease owns all of it', async () => {
  await withRuntime({ warmPods: 2 }, async (runtime) => {
    await withSandbox(runtime, async () => undefined)
    const pools = await readyPools(2)
    const waiting = (await list(paths.pods)).map(({ metadata }) => metadata.name)
    const [lease] = await list(paths.leases)
    const uids: unknown[] = []
    for (const item of [...pools, ...(await list(paths.templates))]) {
      assert.deepEqual(
        item.metadata.ownerReferences?.map(({ kind, name }) => ({ kind, name })),
        [{ kind: 'Lease', name: lease?.metadata.name }],
      )
    }
    await withSandbox(runtime, async (sandbox) => {
      const [claim] = await list(paths.claims)
      assert.ok(waiting.includes(claim?.status?.sandbox?.name ?? ''))
      await withSandbox(runtime, async (other) => {
        for (const one of [sandbox, other]) {
          const { stdout } = await one.run(script('id -u'), signal)
          uids.push(new TextDecoder().decode(stdout.bytes))
        }
      })
    })
    assert.equal(new Set(uids).size, 2)
    const [policy] = await list(paths.policies)
    assert.deepEqual(policy?.spec.policyTypes, ['Ingress', 'Egress'])
    assert.deepEqual([policy?.spec.ingress, policy?.spec.egress], [undefined, undefined])
  })
  await untilEmpty()
})

test('sandboxes beyond the warm pods, and of other limits, get pods of their own, and leave no pool', async () => {
  await withRuntime({ warmPods: 1 }, async (runtime) => {
    const all = await Promise.all(Array.from({ length: 3 }, () => runtime.open(spec, signal)))
    const outcomes = await Promise.all(all.map((one, n) => one.run(script(`exit ${n + 1}`), signal)))
    assert.deepEqual(
      outcomes.map(({ exit }) => exit),
      [{ code: 1 }, { code: 2 }, { code: 3 }],
    )
    await Promise.all(all.map((one) => one.dispose()))
    await readyPools(1)
    const larger = { limits: { ...attackLimits, memoryBytes: 2 * attackLimits.memoryBytes } }
    assert.deepEqual((await runOnce(runtime, script('exit 5'), larger)).exit, { code: 5 })
    const [first, second, ...others] = await readyPools(2)
    assert.ok(first !== undefined && second !== undefined && others.length === 0)
  })
  await untilEmpty()
})

test('a pod of a template that was made weaker after Gantry made it is refused, and nothing runs in it', async () => {
  // Another namespace, because the one of the other tests refuses such pods by itself.
  const open = `weak-${process.pid}`
  type PodSpec = Readonly<Record<string, unknown>> & {
    readonly containers: readonly Readonly<Record<string, object>>[]
  }
  const weaker: readonly (readonly [string, (pod: PodSpec) => object])[] = [
    ['hostNetwork', () => ({ hostNetwork: true })],
    ['volumes', () => ({ volumes: [{ name: 'work', hostPath: { path: '/' } }, ...emptyVolumes] })],
    ['runtimeClassName', () => ({ runtimeClassName: open })],
    [
      'containers[0].securityContext',
      ({ containers: [one] }) => ({ containers: [{ ...one, securityContext: unconfined }] }),
    ],
  ]
  // A privileged container is refused by the API of this cluster itself.
  const unconfined = { capabilities: { add: ['SYS_ADMIN'] }, seccompProfile: { type: 'Unconfined' }, runAsUser: 0 }
  const emptyVolumes = ['shm', 'nothing'].map((name) => ({ name, emptyDir: { medium: 'Memory', sizeLimit: '65536' } }))
  await api('POST', '/api/v1/namespaces', { metadata: { name: open } })
  await api('POST', '/apis/node.k8s.io/v1/runtimeclasses', { metadata: { name: open }, handler: 'runc' })
  const templates = `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${open}/sandboxtemplates`
  try {
    await withRuntime({ warmPods: 1, namespace: open }, async (runtime) => {
      const seen = new Set<string>()
      for (const [path, change] of weaker) {
        await withSandbox(runtime, async () => undefined)
        // The lane of a refused pod is given up, so that each time there is another template.
        const template = (await list(templates)).find(({ metadata }) => !seen.has(metadata.name))
        assert.ok(template !== undefined)
        seen.add(template.metadata.name)
        const { spec: pod } = template.spec.podTemplate as { spec: PodSpec }
        const changed = change(pod)
        await api('PATCH', `${templates}/${template.metadata.name}`, { spec: { podTemplate: { spec: changed } } })
        const [member = ''] = Object.keys(changed)
        await until(
          () => list(`/api/v1/namespaces/${open}/pods`),
          (pods) =>
            pods.some(
              (one) =>
                one.metadata.name.startsWith(template.metadata.name) &&
                JSON.stringify(one.spec[member]) !== JSON.stringify(pod[member]),
            ),
        )
        const error: unknown = await runtime.open(spec, signal).then(
          (sandbox) => sandbox.dispose(),
          (reason: unknown) => reason,
        )
        assert.ok(ToolError.is(error), path)
        assert.equal(error.code, 'RUNTIME_UNAVAILABLE', error.message)
        assert.ok(error.message.includes(path), error.message)
        assert.match(error.message, /is not as the policy of sandboxes says: .*Nothing was run in it/)
      }
    })
  } finally {
    await api('DELETE', `/apis/node.k8s.io/v1/runtimeclasses/${open}`)
    await api('DELETE', `/api/v1/namespaces/${open}`)
  }
})

test('a claim whose time is over is removed by the cluster, and its run ends', async () => {
  await withRuntime({ warmPods: 0 }, async (runtime) => {
    const started = Promise.withResolvers<void>()
    await withSandbox(runtime, async (sandbox) => {
      const run = sandbox.run({ ...script('echo runs; sleep 600'), onOutput: () => started.resolve() }, signal)
      await started.promise
      const [claim] = await list(paths.claims)
      assert.ok(claim !== undefined)
      const over = { spec: { lifecycle: { shutdownTime: '2026-01-01T00:00:00Z' } } }
      await api('PATCH', `${paths.claims}/${claim.metadata.name}`, over)
      await assert.rejects(run, { code: 'BACKEND_FAILED' })
    })
  })
  await untilEmpty()
})

test('an owner is killed: its claims are removed when their pods have ended, and the next owner removes its pools', async () => {
  const owner = spawn(
    process.execPath,
    [new URL('owner.fixture.ts', import.meta.url).pathname, kubeconfig(), standardImage, 'agent-sandbox', namespace],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [line] = await once(createInterface({ input: owner.stdout }), 'line')
  assert.equal(line, 'running')
  assert.equal((await list(paths.claims)).length, 2)
  owner.kill('SIGKILL')
  await until(
    () => list(paths.pods),
    (pods) => pods.some(({ status }) => status?.phase === 'Failed' || status?.phase === 'Succeeded'),
  )
  // It removes ended pods, but not those whose sandbox would get another one.
  await withRuntime({ mode: 'pods' }, (runtime) => runOnce(runtime, script('exit 0')))
  await until(
    () => list(paths.claims),
    ({ length }) => length === 0,
  )
  const [lease] = await list(paths.leases)
  assert.ok(lease !== undefined)
  // As if the time of the lease had passed.
  const past = '2026-01-01T00:00:00.000000Z'
  await api('PATCH', `${paths.leases}/${lease.metadata.name}`, { spec: { renewTime: past } })
  await withRuntime({ warmPods: 0 }, (runtime) => runOnce(runtime, script('exit 0')))
  await untilEmpty()
})

for (const mode of ['pods', 'agent-sandbox'] as const) {
  test(`the pod of a worker is deleted: the cluster removes its sandboxes with it, in the mode ${mode}`, async () => {
    const container = {
      name: 'worker',
      image: standardImage,
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    }
    // It stands for the worker and never runs, because no node is named so.
    const { metadata } = (await api('POST', paths.pods, {
      metadata: { name: `worker-${mode}` },
      spec: {
        containers: [container],
        nodeSelector: { absent: 'node' },
        securityContext: { runAsNonRoot: true, runAsUser: 1_000, seccompProfile: { type: 'RuntimeDefault' } },
      },
    })) as { metadata: { name: string; uid: string } }
    const owner = spawn(
      process.execPath,
      [new URL('owner.fixture.ts', import.meta.url).pathname, kubeconfig(), standardImage, mode, namespace],
      {
        env: { ...process.env, GANTRY_POD_NAME: metadata.name, GANTRY_POD_UID: metadata.uid },
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    )
    const exited = once(owner, 'exit')
    const [line] = await once(createInterface({ input: owner.stdout }), 'line')
    assert.equal(line, 'running')
    await api('DELETE', `${paths.pods}/${metadata.name}`)
    // Its program has lost its pod, which is an error that it does not catch.
    assert.deepEqual(await exited, [1, null])
    await untilEmpty()
  })
}

test('a quota that the controller meets is refused as such', async () => {
  const small = `quota-claims-${process.pid}`
  await api('POST', '/api/v1/namespaces', { metadata: { name: small } })
  try {
    await withRuntime({ warmPods: 0, namespace: small }, async (runtime) => {
      await withSandbox(runtime, async () => undefined)
      await api('POST', `/api/v1/namespaces/${small}/resourcequotas`, {
        metadata: { name: 'none' },
        spec: { hard: { pods: '0' } },
      })
      // The quota counts from the moment in which its controller has seen it.
      await until(
        () => api('GET', `/api/v1/namespaces/${small}/resourcequotas/none`) as Promise<{ status?: { hard?: object } }>,
        ({ status }) => status?.hard !== undefined,
      )
      await assert.rejects(runtime.open(spec, signal), {
        code: 'RUNTIME_UNAVAILABLE',
        message: /^The quota of the namespace is used up: .*exceeded quota/,
      })
    })
  } finally {
    await api('DELETE', `/api/v1/namespaces/${small}`)
  }
})

/** The rules of the documentation, as one role. */
function documentedRules(): readonly object[] {
  const page = readFileSync(new URL('../../../../docs/runtimes/kubernetes.md', import.meta.url), 'utf8')
  const lines = page.split('\n').filter((line) => /^\s*- \{ apiGroups: /.test(line))
  return parse(lines.map((line) => line.trim()).join('\n'))
}

test('the role of the documentation is enough for both modes', async () => {
  using folder = temporaryFolder()
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`
  await api('POST', `${rbac}/roles`, { metadata: { name: 'worker' }, rules: documentedRules() })
  await api('POST', accounts, { metadata: { name: 'worker' } })
  await api('POST', `${rbac}/rolebindings`, {
    metadata: { name: 'worker' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'worker' },
    subjects: [{ kind: 'ServiceAccount', name: 'worker', namespace }],
  })
  const { status } = (await api('POST', `${accounts}/worker/token`, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {},
  })) as { status: { token: string } }
  const config = JSON.parse(readFileSync(kubeconfig(), 'utf8'))
  config.users[0].user = { token: status.token }
  const own = join(folder.path, 'kubeconfig')
  writeFileSync(own, JSON.stringify(config), { mode: 0o600 })
  for (const mode of ['pods', 'agent-sandbox'] as const) {
    await withRuntime({ kubeconfig: own, mode, warmPods: 1 }, async (runtime) => {
      const probe = await runtime.probe(signal)
      assert.ok(probe.available, JSON.stringify(probe))
      assert.match(probe.version, /NetworkPolicy not enforced$/)
    })
  }
  await untilEmpty()
})
