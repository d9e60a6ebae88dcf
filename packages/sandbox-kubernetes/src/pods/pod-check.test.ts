import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { V1PodSpec } from '@kubernetes/client-node'
import { differencesOf, requirePolicy } from './pod-check.ts'
import { podSpecOf } from './pod-spec.ts'

const policy = podSpecOf(
  {
    id: 'one',
    owner: 'owner',
    image: 'sha256:0',
    command: ['/gantry/init', 'init', '--pipes', '/gantry/filters/offline'],
    filter: 'base',
    uid: 1_879_048_192,
    memoryBytes: 33_554_432,
    pids: 16,
    processors: 1,
    diskBytes: 1_048_576,
    openFiles: 64,
    hasOwnKernel: false,
  },
  { namespace: 'default', image: 'docker.io/gantry/sandbox:standard', lifetimeMs: 60_000, runtimeClass: 'gvisor' },
)

/** The policy as the API answers it: without what is false and not a pointer, and with its own defaults. */
function answered(change: (pod: Record<string, unknown>, container: Record<string, unknown>) => void = () => {}) {
  const pod = structuredClone(policy) as V1PodSpec & Record<string, unknown>
  for (const name of ['hostNetwork', 'hostPID', 'hostIPC']) delete pod[name]
  const [container] = pod.containers as unknown as Record<string, unknown>[]
  assert.ok(container !== undefined)
  container.terminationMessagePath = '/dev/termination-log'
  container.resources = { limits: { memory: '51380224', cpu: '1' }, requests: { memory: '49Mi', cpu: '10m' } }
  Object.assign(pod, {
    schedulerName: 'default-scheduler',
    serviceAccountName: 'default',
    priority: 0,
    nodeName: 'node',
    tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists' }],
  })
  change(pod, container)
  return pod
}

test('a pod as the API answers it, with its defaults and amounts in another form, has the policy', () => {
  assert.deepEqual(differencesOf(policy, answered()), [])
  assert.deepEqual(differencesOf(policy, policy), [])
})

test('a pod that is weaker in any way differs from the policy', () => {
  type Change = Parameters<typeof answered>[0]
  const cases: readonly (readonly [string, NonNullable<Change>])[] = [
    ['hostNetwork', (pod) => Object.assign(pod, { hostNetwork: true })],
    ['hostPID', (pod) => Object.assign(pod, { hostPID: true })],
    ['hostIPC', (pod) => Object.assign(pod, { hostIPC: true })],
    ['runtimeClassName', (pod) => delete pod.runtimeClassName],
    ['runtimeClassName', (pod) => Object.assign(pod, { runtimeClassName: 'weaker' })],
    ['automountServiceAccountToken', (pod) => delete pod.automountServiceAccountToken],
    ['enableServiceLinks', (pod) => delete pod.enableServiceLinks],
    ['volumes', (pod) => (pod.volumes as object[]).push({ name: 'host', hostPath: { path: '/' } })],
    ['volumes[0].hostPath', (pod) => Object.assign((pod.volumes as object[])[0] ?? {}, { hostPath: { path: '/' } })],
    ['containers', (pod) => (pod.containers as object[]).push({ name: 'sidecar', image: 'proxy' })],
    ['initContainers', (pod) => Object.assign(pod, { initContainers: [{ name: 'first', image: 'any' }] })],
    ['ephemeralContainers', (pod) => Object.assign(pod, { ephemeralContainers: [{ name: 'debug' }] })],
    ['shareProcessNamespace', (pod) => Object.assign(pod, { shareProcessNamespace: true })],
    ['hostAliases', (pod) => Object.assign(pod, { hostAliases: [{ ip: '127.0.0.1' }] })],
    ['securityContext.sysctls', (pod) => Object.assign(pod.securityContext as object, { sysctls: [{ name: 'a' }] })],
    [
      'securityContext.seLinuxOptions.type',
      (pod) => Object.assign(pod.securityContext as object, { seLinuxOptions: { level: 's0', type: 'spc_t' } }),
    ],
    ['containers[0].image', (_, one) => Object.assign(one, { image: 'docker.io/gantry/sandbox:other' })],
    ['containers[0].command[0]', (_, one) => Object.assign(one, { command: ['/bin/sh', 'init', '--pipes', '/x'] })],
    ['containers[0].env', (_, one) => Object.assign(one, { env: [{ name: 'A', value: 'b' }] })],
    ['containers[0].lifecycle', (_, one) => Object.assign(one, { lifecycle: { postStart: { exec: {} }, x: 1 } })],
    ['containers[0].resources.limits.memory', (_, one) => Object.assign(one, { resources: { limits: { cpu: '1' } } })],
    [
      'containers[0].securityContext.privileged',
      (_, one) => Object.assign(one.securityContext as object, { privileged: true }),
    ],
    [
      'containers[0].securityContext.allowPrivilegeEscalation',
      (_, one) => delete (one.securityContext as Record<string, unknown>).allowPrivilegeEscalation,
    ],
    [
      'containers[0].securityContext.capabilities.add',
      (_, one) => Object.assign((one.securityContext as { capabilities: object }).capabilities, { add: ['SYS_ADMIN'] }),
    ],
    [
      'containers[0].securityContext.seccompProfile.type',
      (_, one) => Object.assign(one.securityContext as object, { seccompProfile: { type: 'Unconfined' } }),
    ],
    ['containers[0].volumeMounts', (_, one) => (one.volumeMounts as object[]).push({ name: 'work', mountPath: '/x' })],
  ]
  for (const [path, change] of cases) {
    const found = differencesOf(policy, answered(change))
    assert.ok(
      found.some((one) => one === path || one.startsWith(`${path}.`) || one.startsWith(`${path}[`)),
      `${path}: ${found.join(', ')}`,
    )
  }
})

test('what the cluster may add is no difference', () => {
  const pod = answered((one, container) => {
    Object.assign(one, { nodeSelector: { pool: 'sandboxes' }, overhead: { memory: '64Mi' }, hostUsers: false })
    Object.assign(one.securityContext as object, { seLinuxOptions: { level: 's0:c1,c2' } })
    Object.assign((container.resources as { limits: object }).limits, { 'ephemeral-storage': '1Gi' })
  })
  assert.deepEqual(differencesOf(policy, pod), [])
})

test('a hostile answer is refused with few paths, whatever its form', () => {
  for (const pod of [
    undefined,
    null,
    'pod',
    7,
    [],
    { containers: 'none' },
    { containers: [null], volumes: [[], []] },
  ]) {
    assert.ok(differencesOf(policy, pod).length > 0)
    assert.ok(differencesOf(policy, pod).length <= 8)
  }
})

test('a pod that differs is RUNTIME_UNAVAILABLE, with the paths and the remedy', () => {
  const pod = answered((one) => Object.assign(one, { hostNetwork: true }))
  assert.throws(() => requirePolicy('The pod p', policy, pod), {
    code: 'RUNTIME_UNAVAILABLE',
    message:
      /^The pod p is not as the policy of sandboxes says: hostNetwork\. Nothing was run in it\. Exempt the namespace/,
  })
  assert.doesNotThrow(() => requirePolicy('The pod p', policy, answered()))
})
