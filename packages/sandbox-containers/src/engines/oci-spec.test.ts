import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seccompProfiles } from './container-seccomp.ts'
import type { ContainerSpec } from './engine.ts'
import { ociSpec } from './oci-spec.ts'

const spec: ContainerSpec = {
  id: 'one',
  owner: 'owner',
  image: 'sha256:0',
  command: ['/gantry/init', 'init'],
  filter: 'base',
  uid: 61_000,
  memoryBytes: 64 * 2 ** 20,
  pids: 18,
  processors: 1.5,
  diskBytes: 2 ** 20,
  openFiles: 1_024,
  hasOwnKernel: false,
}

interface Spec {
  readonly root: object
  readonly process: {
    readonly user: object
    readonly env: readonly string[]
    readonly capabilities: { readonly [set: string]: readonly string[] }
    readonly noNewPrivileges: boolean
    readonly rlimits: readonly { readonly type: string; readonly hard: number; readonly soft: number }[]
  }
  readonly mounts: readonly {
    readonly destination: string
    readonly type: string
    readonly options: readonly string[]
  }[]
  readonly linux: {
    readonly namespaces: readonly { readonly type: string; readonly path?: string }[]
    readonly maskedPaths: readonly string[]
    readonly seccomp: object
    readonly resources: {
      readonly memory: object
      readonly cpu: object
      readonly pids: object
      readonly devices: readonly { readonly allow: boolean; readonly access: string; readonly type?: string }[]
    }
  }
}

const made = (changes: Partial<ContainerSpec> = {}): Spec => ociSpec({ ...spec, ...changes }, '/gantry/one') as Spec

test('a container has no capability, no new privileges, a read-only root, a uid of its own and an empty environment', () => {
  const { root, process } = made()
  assert.deepEqual(root, { path: 'rootfs', readonly: true })
  assert.deepEqual(Object.values(process.capabilities).flat(), [])
  assert.equal(Object.keys(process.capabilities).length, 5)
  assert.equal(process.noNewPrivileges, true)
  assert.deepEqual(process.user, { uid: 61_000, gid: 61_000, additionalGids: [] })
  assert.deepEqual(process.env, [])
})

test('the filter of system calls is there before the image has a say', () => {
  assert.equal(made().linux.seccomp, seccompProfiles.base)
  assert.equal(made({ filter: 'strict' }).linux.seccomp, seccompProfiles.strict)
})

test('every namespace is new: none has a path of the host', () => {
  const { namespaces } = made().linux
  assert.deepEqual(namespaces.map(({ type }) => type).toSorted(), ['ipc', 'mount', 'network', 'pid', 'uts'])
  assert.ok(namespaces.every(({ path }) => path === undefined))
})

test('memory has no swap, and processes and processors are limited', () => {
  const { memory, pids, cpu } = made().linux.resources
  assert.deepEqual(memory, { limit: 64 * 2 ** 20, swap: 64 * 2 ** 20 })
  assert.deepEqual(pids, { limit: 18 })
  assert.deepEqual(cpu, { period: 100_000, quota: 150_000 })
})

test('all devices are denied first, and no block device is allowed', () => {
  const [first, ...rest] = made().linux.resources.devices
  assert.deepEqual(first, { allow: false, access: 'rwm' })
  assert.ok(rest.every(({ type, access }) => type === 'c' && !access.includes('m')))
})

test('what can be written to is in memory and bounded, and nothing of the host is mounted', () => {
  for (const { destination, type, options } of made({ hasOwnKernel: true }).mounts) {
    assert.ok(type === 'tmpfs' || type === 'proc', `${destination} is ${type}`)
    if (type === 'tmpfs')
      assert.ok(
        options.some((option) => /^size=\d+$/.test(option)),
        destination,
      )
    assert.ok(options.includes('nosuid'), destination)
  }
})

test('the folder of the egress proxy is the only mount of the host, and read-only', () => {
  const bound = made({ egressFolder: '/run/e-1' }).mounts.filter(({ type }) => type === 'bind')
  assert.deepEqual(
    bound.map(({ destination }) => destination),
    ['/gantry/egress'],
  )
  for (const option of ['ro', 'nosuid', 'nodev', 'noexec']) assert.ok(bound[0]?.options.includes(option), option)
})

test('limits of files and descriptors are the same for soft and hard', () => {
  const { rlimits } = made().process
  assert.ok(rlimits.every(({ hard, soft }) => hard === soft))
  const found = new Map(rlimits.map(({ type, hard }) => [type, hard]))
  assert.equal(found.get('RLIMIT_NOFILE'), 1_024)
  assert.equal(found.get('RLIMIT_FSIZE'), 2 ** 20)
  assert.equal(found.get('RLIMIT_CORE'), 1)
})

test('a limit of processor time is of the kernel, and there is none where the spec has none', () => {
  const cpu = (changes: Partial<ContainerSpec>) =>
    made(changes).process.rlimits.find(({ type }) => type === 'RLIMIT_CPU')
  assert.deepEqual(cpu({ cpuSeconds: 7 }), { type: 'RLIMIT_CPU', hard: 7, soft: 7 })
  assert.equal(cpu({}), undefined)
})
