import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { Runtime, SandboxSpec } from '@gantry/sandbox'
import { createKubernetesRuntime, type KubernetesOptions } from '@gantry/sandbox-kubernetes'
import { standardImage } from './cluster.fixture.ts'
import { clusterApi } from './cluster-api.fixture.ts'
import { ownNamespace } from './own-namespace.fixture.ts'
import { temporaryFolder } from './temporary-folder.fixture.ts'

const signal = AbortSignal.timeout(300_000)
const { name: namespace, kubeconfig } = await ownNamespace()
const api = clusterApi(kubeconfig)
const runtime = createKubernetesRuntime({ kubeconfig, image: standardImage })
after(() => runtime.close())

const python = (code: string) => ({ program: { kind: 'code', language: 'python', code } }) as const

async function withRuntime<T>(options: KubernetesOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
  const own = createKubernetesRuntime({ kubeconfig, image: standardImage, ...options })
  try {
    return await use(own)
  } finally {
    await own.close()
  }
}

/** How a runtime refuses to open a sandbox. */
function refusal(options: KubernetesOptions): Promise<ToolError> {
  return withRuntime(options, async (own) => {
    try {
      await (await own.open({ limits: attackLimits, network: 'none' }, signal)).dispose()
    } catch (error) {
      assert.ok(ToolError.is(error), String(error))
      return error
    }
    assert.fail('a sandbox was opened')
  })
}

test('a program in a pod can make no network socket', async () => {
  const code = `
import socket, errno
made = []
for family in range(0, 46):
    if family == socket.AF_UNIX: continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try: socket.socket(family, kind); made.append([family, int(kind)])
        except OSError: pass
one, other = socket.socketpair()
one.send(b'x')
return {'made': made, 'pair': other.recv(1).decode()}`
  assert.deepEqual((await runOnce(runtime, python(code))).value, { made: [], pair: 'x' })
})

test('a pod has neither account, variables nor names of the cluster, and its specification and log have nothing of a program', async () => {
  const spec = {
    ...{ privileged: true, hostNetwork: true, volumes: [{ hostPath: { path: '/' } }], runtimeClassName: 'weaker' },
    language: 'python',
    limits: attackLimits,
    network: 'none',
  } satisfies SandboxSpec & object
  const sandbox = await runtime.open(spec, signal)
  try {
    const code = `
import os
print('marker-of-the-output')
return [sorted(name for name in os.environ if 'KUBERNETES' in name), os.path.exists('/var/run/secrets'),
        open('/etc/resolv.conf').read().split(), os.listdir('/sys')]`
    const running = sandbox.run(
      {
        ...python(code),
        env: { SECRET: 'marker-of-a-variable' },
        files: new Map([['in', Buffer.from('marker-of-a-file')]]),
      },
      signal,
    )
    const { items } = (await api('GET', `/api/v1/namespaces/${namespace}/pods`)) as { items: readonly Pod[] }
    const { value } = await running
    assert.deepEqual(value, [[], false, ['nameserver', '127.0.0.1'], []])
    const [pod] = items.filter(({ spec }) => spec.containers[0]?.command?.includes('--pipes'))
    assert.ok(pod !== undefined)
    assert.doesNotMatch(JSON.stringify(items), /marker-of/)
    assert.deepEqual(
      {
        account: pod.spec.automountServiceAccountToken,
        host: [pod.spec.hostNetwork, pod.spec.hostPID, pod.spec.hostIPC].some((one) => one === true),
        volumes: pod.spec.volumes.every((volume) => 'emptyDir' in volume),
        runtimeClass: pod.spec.runtimeClassName,
        ...pod.spec.containers[0]?.securityContext,
      },
      {
        account: false,
        host: false,
        volumes: true,
        runtimeClass: undefined,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        privileged: false,
        procMount: 'Default',
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        runAsUser: pod.spec.securityContext.runAsUser,
        runAsGroup: pod.spec.securityContext.runAsUser,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    )
    const log = await api('GET', `/api/v1/namespaces/${namespace}/pods/${pod.metadata.name}/log`).catch(String)
    assert.doesNotMatch(String(log), /marker-of/)
  } finally {
    await sandbox.dispose()
  }
})

interface Pod {
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly automountServiceAccountToken?: boolean
    readonly hostNetwork?: boolean
    readonly hostPID?: boolean
    readonly hostIPC?: boolean
    readonly runtimeClassName?: string
    readonly volumes: readonly object[]
    readonly securityContext: { readonly runAsUser?: number }
    readonly containers: readonly { readonly command?: readonly string[]; readonly securityContext?: object }[]
  }
}

test('a namespace that enforces the standard `restricted` accepts the pods', async () => {
  const name = `restricted-${process.pid}`
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  await api('POST', '/api/v1/namespaces', { metadata: { name, labels } })
  try {
    await withRuntime({ namespace: name }, async (own) => {
      const { exit } = await runOnce(own, python('pass'))
      assert.deepEqual(exit, { code: 0 })
    })
  } finally {
    await api('DELETE', `/api/v1/namespaces/${name}`)
  }
})

test('a quota of the namespace is refused as such, and nothing is left', async () => {
  const name = `quota-${process.pid}`
  await api('POST', '/api/v1/namespaces', { metadata: { name } })
  try {
    await api('POST', `/api/v1/namespaces/${name}/resourcequotas`, {
      metadata: { name: 'none' },
      spec: { hard: { pods: '0' } },
    })
    // The quota counts from the moment in which its controller has seen it.
    const isCounted = async (): Promise<boolean> => {
      const quota = (await api('GET', `/api/v1/namespaces/${name}/resourcequotas/none`)) as {
        status?: { hard?: object }
      }
      return quota.status?.hard !== undefined
    }
    while (!(await isCounted())) await new Promise((resolve) => setTimeout(resolve, 50))
    const { code, message } = await refusal({ namespace: name })
    assert.equal(code, 'RUNTIME_UNAVAILABLE')
    assert.match(message, /^The quota of the namespace is used up: .*exceeded quota/)
    const { items } = (await api('GET', `/api/v1/namespaces/${name}/pods`)) as { items: readonly object[] }
    assert.deepEqual(items, [])
  } finally {
    await api('DELETE', `/api/v1/namespaces/${name}`)
  }
})

test('wrong settings are RUNTIME_UNAVAILABLE with the reason and what to do', async () => {
  using folder = temporaryFolder()
  const wrongToken = join(folder.path, 'kubeconfig')
  const config = JSON.parse(readFileSync(kubeconfig, 'utf8'))
  config.users[0].user.token = 'wrong'
  writeFileSync(wrongToken, JSON.stringify(config))
  const cases: readonly (readonly [KubernetesOptions, RegExp])[] = [
    [{ kubeconfig: '/nowhere/kubeconfig' }, /^\/nowhere\/kubeconfig cannot be read\. Name a kubeconfig file/],
    [{ context: 'absent' }, /has no context "absent"/],
    [{ kubeconfig: wrongToken }, /does not accept the credential/],
    [{ namespace: 'absent' }, /namespaces "absent" not found/],
    [
      { image: 'docker.io/gantry/absent:1' },
      /The image "docker.io\/gantry\/absent:1" cannot be used by the cluster: .*Load an image/,
    ],
    [{ image: 'localhost/gantry-pause:1' }, /cannot be used by the cluster|was not made by `gantry runtime build`/],
    [{ runtimeClass: 'absent' }, /RuntimeClass "absent" not found/],
  ]
  for (const [options, expected] of cases) {
    const { code, message } = await refusal(options)
    assert.equal(code, 'RUNTIME_UNAVAILABLE', JSON.stringify(options))
    assert.match(message, expected)
  }
  const { items } = (await api('GET', `/api/v1/namespaces/${namespace}/pods`)) as { items: readonly object[] }
  assert.deepEqual(items, [])
})

for (const mode of ['pods', 'agent-sandbox'] as const) {
  test(`a program whose processes stay is ended by their number before the kernel refuses more, in the mode ${mode}`, async () => {
    // The kernel counts what else has the uid of the pod too: a program that cannot reach its limit would only hang.
    const script = 'i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; wait'
    const { hit } = await withRuntime({ mode }, (own) => runOnce(own, { program: { kind: 'script', script } }))
    assert.equal(hit, 'pids')
  })
}

test('a cluster that does not enforce NetworkPolicy is found out, and a sandbox that needs a network is refused with that', async () => {
  const probe = await runtime.probe(signal)
  assert.ok(probe.available, JSON.stringify(probe))
  // The bridge of this cluster ignores policies.
  assert.match(probe.version, /, NetworkPolicy not enforced$/)
  const network = { allow: ['https://api.example.com'] }
  const refused = runtime.refuses({ limits: attackLimits, network })
  assert.match(
    refused?.reason ?? '',
    /^The cluster does not enforce NetworkPolicy: a connection between two pods passed/,
  )
  assert.match(refused?.remedy ?? '', /network plugin enforces NetworkPolicy/)
  const path = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`
  const { items } = (await api('GET', path)) as { items: readonly { readonly metadata: { readonly name: string } }[] }
  // Those of agent-sandbox have the names of their templates.
  assert.deepEqual(
    items.filter(({ metadata }) => !metadata.name.endsWith('-network-policy')),
    [],
  )
})

test('a call that needs a network, and one of the profile `hardened`, are refused with a remedy', async () => {
  await runtime.probe(signal)
  const base = { limits: attackLimits, network: 'none' } as const
  assert.equal(runtime.refuses(base), undefined)
  assert.match(runtime.refuses({ ...base, strict: true })?.reason ?? '', /./)
  const network = { allow: ['https://api.example.com'] }
  assert.match(runtime.refuses({ ...base, network })?.reason ?? '', /./)
})
