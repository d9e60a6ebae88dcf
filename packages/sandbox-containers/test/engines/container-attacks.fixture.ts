import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import {
  type Attack,
  type AttackEnd,
  attackLimits,
  type Ground,
  runOnce,
} from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import type { Confinement } from '@gantry/core/internal/runtimes/runtimes'
import { createRuntimes, createUnsafeHostRuntime, type Outcome, type Runtime, type SandboxSpec } from '@gantry/sandbox'
import { createDockerRuntime, createGvisorRuntime, type DockerOptions } from '@gantry/sandbox-containers'
import { api, commitImage } from './docker-api.fixture.ts'
import { disguises, dockerSocket, startsOf } from './engines.fixture.ts'

const signal = AbortSignal.timeout(600_000)
const ociRuntime: { readonly [kind: string]: string } = { docker: 'runc', gvisor: 'runsc' }

/** Creates a runtime of the kind under test with other options. */
async function withRuntime<T>(kind: string, options: DockerOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
  const create = kind === 'gvisor' ? createGvisorRuntime : createDockerRuntime
  const runtime = create({ socket: dockerSocket(), ...options })
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

function printed({ stdout, stderr }: Outcome): string {
  return Buffer.from(stdout.bytes).toString() + Buffer.from(stderr.bytes).toString()
}

/** Whether a runtime refuses to open a sandbox at all, which is what its probe says too. */
async function isRefused(runtime: Runtime): Promise<boolean> {
  const probe = await runtime.probe(signal)
  try {
    const sandbox = await runtime.open({ limits: attackLimits, network: 'none' }, signal)
    await sandbox.dispose()
    return false
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE', String(error))
    assert.equal(probe.available, false)
    return true
  }
}

/** An image that tries to be more than files: what it starts, as whom, where, with what, and a `/dev` that leads elsewhere. */
async function hostileImage(name: string, folder: string): Promise<{ readonly dev: string }> {
  const [layer, dev] = [join(folder, 'layer'), join(folder, 'dev-of-the-host')]
  mkdirSync(layer)
  mkdirSync(dev)
  writeFileSync(join(dev, 'ptmx'), 'a file of the host')
  chmodSync(dev, 0o777)
  symlinkSync(dev, join(layer, 'dev'))
  const instructions = [
    'ENTRYPOINT ["/bin/sh", "-c", "echo hostile entry point; id -u; pwd; env"]',
    'ENV HOSTILE=variable LD_PRELOAD=/hostile.so GLIBC_TUNABLES=glibc.malloc.check=1 PYTHONSTARTUP=/hostile.py BASH_ENV=/hostile.sh',
    'WORKDIR /proc/self/fd/8',
    'USER 0',
    'HEALTHCHECK --interval=1s CMD echo hostile',
    'EXPOSE 80',
  ]
  await commitImage(dockerSocket(), name, instructions, layer)
  return { dev }
}

async function withHostileImage(
  folder: string,
  use: (name: string, dev: string) => Promise<AttackEnd>,
): Promise<AttackEnd> {
  const name = `gantry-test/hostile-${process.pid}`
  const { dev } = await hostileImage(name, folder)
  try {
    return await use(name, dev)
  } finally {
    await api(dockerSocket(), 'DELETE', `/images/${encodeURIComponent(name)}?force=1`)
  }
}

/** Starts a container as the engine's own client would, and answers with what it printed. */
async function plainContainer(image: string): Promise<string> {
  const socket = dockerSocket()
  // Only the working directory is ours: runc refuses that of the image, or does not start.
  const body = { Image: image, WorkingDir: '/', Tty: true, HostConfig: { NetworkMode: 'none' } }
  const { Id } = (await api(socket, 'POST', '/containers/create', body)) as { Id: string }
  try {
    await api(socket, 'POST', `/containers/${Id}/start`)
    await api(socket, 'POST', `/containers/${Id}/wait`)
    return String(await api(socket, 'GET', `/containers/${Id}/logs?stdout=1&stderr=1`))
  } finally {
    await api(socket, 'DELETE', `/containers/${Id}?force=1`)
  }
}

const showing = `
import os
print(os.getuid(), os.getcwd(), sorted(os.environ))
try: print(open('/proc/1/environ', 'rb').read())
except OSError: pass
`

const hostile: Attack = {
  number: 136,
  title: 'a hostile image: its entry point, user, working directory, variables and a /dev that is a link to the host',
  control: ({ folder }) =>
    withHostileImage(join(folder, mkdirIn(folder, 'control')), async (name) => {
      const said = await plainContainer(name)
      return /hostile entry point\s+0\s/.test(said) && said.includes('HOSTILE=variable') ? 'succeeded' : 'blocked'
    }),
  attempt: ({ kind, folder, note }) =>
    withHostileImage(join(folder, mkdirIn(folder, 'attempt')), (name, dev) =>
      withRuntime(kind, { image: name }, async (runtime) => {
        const said = printed(await runOnce(runtime, { program: { kind: 'code', language: 'python', code: showing } }))
        note(said)
        const isUntouched =
          readFileSync(join(dev, 'ptmx'), 'utf8') === 'a file of the host' && readdirSync(dev).length === 1
        const isOurs = !/hostile/i.test(said) && !said.startsWith('0 ') && said.includes(' /work ')
        return isUntouched && isOurs && lstatSync(dev).isDirectory() ? 'blocked' : 'succeeded'
      }),
    ),
}

function mkdirIn(folder: string, name: string): string {
  mkdirSync(join(folder, name))
  return name
}

const oldVersions: { readonly [kind: string]: string } = { docker: disguises.oldRunc, gvisor: disguises.oldRunsc }
const otherwise: { readonly [kind: string]: string } = { docker: disguises.unknownRunc, gvisor: disguises.wrappedRunsc }

const old: Attack = {
  number: 137,
  title: 'an OCI runtime with known escapes: one that is too old is refused before a container is made by it',
  control: async ({ kind }) => {
    // The same program behind the same kind of script, which does not say that it is old.
    const runtime = otherwise[kind] ?? assert.fail()
    const works = await withRuntime(kind, { runtime }, async (one) => !(await isRefused(one)))
    return works && startsOf(runtime).length > 0 ? 'succeeded' : 'blocked'
  },
  attempt: async ({ kind }) => {
    const runtime = oldVersions[kind] ?? assert.fail()
    const refused = await withRuntime(kind, { runtime }, isRefused)
    return refused && startsOf(runtime).length === 0 ? 'blocked' : 'succeeded'
  },
}

/** What a request might try to ask of the engine in addition to numbers. */
const wishes = {
  privileged: true,
  Privileged: true,
  HostConfig: { Privileged: true, NetworkMode: 'host', PidMode: 'host', Binds: ['/:/host'] },
  runtime: 'runc',
  mounts: [{ Type: 'bind', Source: '/', Target: '/host' }],
  capAdd: ['ALL'],
}

interface Inspected {
  readonly HostConfig: {
    readonly Privileged: boolean
    readonly NetworkMode: string
    readonly PidMode: string
    readonly IpcMode: string
    readonly Runtime: string
    readonly ReadonlyRootfs: boolean
    readonly Binds: readonly string[] | null
    readonly CapAdd: readonly string[] | null
    readonly Devices: readonly object[] | null
  }
  readonly Mounts: readonly { readonly Type: string }[]
}

function isWide({ HostConfig, Mounts }: Inspected, runtime: string): boolean {
  const { Privileged, NetworkMode, PidMode, IpcMode, ReadonlyRootfs, Runtime, Binds, CapAdd, Devices } = HostConfig
  const lists = [Binds ?? [], CapAdd ?? [], Devices ?? []]
  const modes = NetworkMode !== 'none' || PidMode !== '' || IpcMode !== 'private' || !ReadonlyRootfs
  return (
    Privileged || modes || Runtime !== runtime || lists.flat().length > 0 || Mounts.some(({ Type }) => Type === 'bind')
  )
}

const privileges: Attack = {
  number: 138,
  title: 'privileged, host mounts, namespaces of the host and another OCI runtime are asked for',
  control: async () => {
    const socket = dockerSocket()
    const HostConfig = { Privileged: true, NetworkMode: 'host', PidMode: 'host', Binds: ['/:/host'] }
    const body = { Image: 'gantry/sandbox:standard', Cmd: ['/bin/true'], HostConfig }
    const { Id } = (await api(socket, 'POST', '/containers/create', body)) as { Id: string }
    try {
      const found = (await api(socket, 'GET', `/containers/${Id}/json`)) as Inspected
      return isWide(found, 'runc') ? 'succeeded' : 'blocked'
    } finally {
      await api(socket, 'DELETE', `/containers/${Id}?v=1`)
    }
  },
  attempt: async ({ kind, runtime }) => {
    const spec = { ...wishes, limits: attackLimits, network: 'none' } satisfies SandboxSpec & typeof wishes
    const sandbox = await runtime.open(spec, signal)
    try {
      const found = (await api(dockerSocket(), 'GET', `/containers/gantry-${sandbox.id}/json`)) as Inspected
      return isWide(found, ociRuntime[kind] ?? '') ? 'succeeded' : 'blocked'
    } finally {
      await sandbox.dispose()
    }
  },
}

/** A program that leaves a trace on the host wherever nothing isolates it. */
function tracing(trace: string) {
  return { program: { kind: 'script', script: `: >'${trace}'` } } as const
}

/** Whether a request for this kind is refused although a weaker runtime is there, and nothing of it ran. */
async function isNotWeakened(strong: Runtime, { folder }: Ground): Promise<boolean> {
  const trace = join(folder, 'trace')
  const weak = createUnsafeHostRuntime()
  const both = createRuntimes({ runtimes: [weak, strong], pool: false, profiles: { dev: { unsafeHost: true } } })
  try {
    const demands: readonly Pick<Confinement, 'runtime' | 'floor'>[] = [
      { runtime: strong.kind },
      { floor: strong.isolation },
    ]
    for (const confinement of demands) {
      const asked = both.run({ ...tracing(trace), profile: 'dev', ...confinement }, signal)
      await assert.rejects(asked, (error) => ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE')
    }
    return !existsSync(trace)
  } finally {
    await both.close()
  }
}

const fallBack: Attack = {
  number: 139,
  title: 'the engine or its OCI runtime is absent, or another program stands behind its name: nothing runs weaker',
  control: async ({ folder, unguarded }) => {
    const trace = join(folder, 'control')
    await runOnce(unguarded, tracing(trace))
    return existsSync(trace) ? 'succeeded' : 'blocked'
  },
  attempt: async (ground) => {
    const create = ground.kind === 'gvisor' ? createGvisorRuntime : createDockerRuntime
    const impostors = ground.kind === 'gvisor' ? [disguises.runcAsRunsc, disguises.runcClaimingRunsc] : []
    const cases: readonly DockerOptions[] = [
      { socket: join(ground.folder, 'no.sock') },
      { socket: dockerSocket(), runtime: 'absent' },
      ...impostors.map((runtime) => ({ socket: dockerSocket(), runtime })),
    ]
    for (const options of cases) {
      const held = await isNotWeakened(create(options), ground)
      ground.note(`${JSON.stringify(options)}: ${held ? 'refused' : 'ran'}`)
      if (!held) return 'succeeded'
    }
    return 'blocked'
  },
}

/** Attacks 136–139 of the list, on engines that have an API for containers. */
export const containerAttacks: readonly Attack[] = [hostile, old, privileges, fallBack]
