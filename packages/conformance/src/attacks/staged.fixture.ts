import { randomBytes } from 'node:crypto'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from '@gantry/sandbox/internal/drivers/process'
import { createUnsafeHostRuntime } from '@gantry/sandbox/internal/drivers/unsafe-host'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { type ContainerKind, containerKinds, type PodKind, podKinds, runOnce } from './attack.ts'

/** Containers are opened only where they are asked for, because their package needs an engine. */
async function inContainers(kind: ContainerKind): Promise<Runtime> {
  const { createContainerdRuntime, createDockerRuntime, createGvisorRuntime } = await import(
    '@gantry/sandbox-containers'
  )
  const socket = named('GANTRY_TEST_DOCKER')
  const containerd = { socket: named('GANTRY_TEST_CONTAINERD'), namespace: named('GANTRY_TEST_CONTAINERD_NAMESPACE') }
  switch (kind) {
    case 'docker':
      return createDockerRuntime({ socket })
    case 'containerd':
      return createContainerdRuntime(containerd)
    case 'gvisor':
      return createGvisorRuntime({ socket })
    case 'gvisor through containerd':
      return createGvisorRuntime({ engine: 'containerd', ...containerd })
  }
}

/** The host of a remote runtime is in the same worker: what the worker has open must not reach its programs either. */
async function onRemoteHost(): Promise<Runtime> {
  const { createRemoteRuntime, createRuntimeServer } = await import('@gantry/sandbox-remote')
  const runtimes = createRuntimes({ runtimes: [createProcessRuntime()], pool: false })
  const key = { id: 'staged', key: randomBytes(32).toString('hex') }
  const server = await createRuntimeServer({ runtimes, keys: [key], port: 0 })
  const remote = createRemoteRuntime({ url: server.url, keyId: key.id, key: key.key })
  const close = async (): Promise<void> => {
    await remote.close()
    await server.close()
    await runtimes.close()
  }
  return Object.create(remote, { close: { value: close } })
}

async function inPods(kind: PodKind): Promise<Runtime> {
  const { createKubernetesRuntime } = await import('@gantry/sandbox-kubernetes')
  return createKubernetesRuntime({
    kubeconfig: named('GANTRY_TEST_KUBECONFIG'),
    image: 'docker.io/gantry/sandbox:standard',
    mode: kind === 'kubernetes' ? 'pods' : kind,
  })
}

async function inMachine(): Promise<Runtime> {
  const { createQemuRuntime } = await import('@gantry/sandbox-microvm')
  return createQemuRuntime({ store: named('GANTRY_TEST_MACHINES'), snapshots: false })
}

/** The Temporal worker is this worker. */
async function onTemporalWorker(): Promise<Runtime> {
  const [{ startTemporalWorker }, { clientOf }, { createTemporalRuntime }] = await Promise.all([
    import('@gantry/temporal'),
    import('@gantry/temporal/internal/connection/connect'),
    import('@gantry/temporal/internal/runtime/temporal-runtime'),
  ])
  const taskQueue = `staged-${randomBytes(6).toString('hex')}`
  const address = named('GANTRY_TEST_TEMPORAL')
  const target = { address, namespace: 'default', taskQueue, payloadKeys: [randomBytes(32)] }
  const runtimes = createRuntimes({ runtimes: [createProcessRuntime()], pool: false })
  const worker = await startTemporalWorker({ target, runtimes })
  const client = clientOf(target)
  const temporal = createTemporalRuntime(async () => client)
  const close = async (): Promise<void> => {
    await temporal.close()
    await worker.close()
    await runtimes.close()
  }
  return Object.create(temporal, { close: { value: close } })
}

async function inProxmox(): Promise<Runtime> {
  const { createProxmoxRuntime } = await import('@gantry/sandbox-proxmox')
  return createProxmoxRuntime(JSON.parse(named('GANTRY_TEST_PROXMOX')))
}

function named(variable: string): string {
  const value = process.env[variable]
  if (value === undefined) throw new Error(`${variable} is not set.`)
  return value
}

/** A separate worker: opens the given runtime, runs one program in it and prints its value. */
const makers: { readonly [kind: string]: () => Runtime | Promise<Runtime> } = {
  process: () => createProcessRuntime(),
  unsafe_host: () => createUnsafeHostRuntime(),
  remote: onRemoteHost,
  ...Object.fromEntries(podKinds.map((kind) => [kind, () => inPods(kind)])),
  qemu: inMachine,
  temporal: onTemporalWorker,
  proxmox_lxc: inProxmox,
  ...Object.fromEntries(containerKinds.map((kind) => [kind, () => inContainers(kind)])),
}
const runtime = await makers[process.argv[2] ?? '']?.()
if (runtime === undefined) throw new Error('There is no such runtime.')
try {
  const program = { kind: 'code', language: 'python', code: process.env.GANTRY_STAGED ?? '' } as const
  const { value, exit, stderr } = await runOnce(runtime, { program })
  if (value === undefined) throw new Error(`${JSON.stringify(exit)} ${new TextDecoder().decode(stderr.bytes)}`)
  process.stdout.write(`\n${JSON.stringify(value)}\n`)
} finally {
  await runtime.close()
}
