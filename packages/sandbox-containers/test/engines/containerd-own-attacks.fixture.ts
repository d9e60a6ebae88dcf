import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Attack, type AttackEnd, attackLimits, runOnce } from '@gantry/conformance/internal/attacks/attack'
import { ToolError } from '@gantry/contract'
import { createRuntimes, createUnsafeHostRuntime, type Runtime, type SandboxSpec } from '@gantry/sandbox'
import { type ContainerdOptions, createContainerdRuntime, createGvisorRuntime } from '@gantry/sandbox-containers'
import { openContainerd } from '@gantry/sandbox-containers/internal/engines/containerd'
import { api, commitImage, saveImages } from './docker-api.fixture.ts'
import { containerd, dockerSocket } from './engines.fixture.ts'

const signal = AbortSignal.timeout(600_000)
const runcName = 'io.containerd.runc.v2'
const ofGvisor = 'gvisor through containerd'

interface Options extends ContainerdOptions {
  readonly runtime?: string
  readonly runsc?: string
}

/** Creates the runtime of an attack's kind with other options. */
function runtimeOf(kind: string, options: Options): Runtime {
  const all = { ...containerd(), ...options }
  return kind === ofGvisor ? createGvisorRuntime({ ...all, engine: 'containerd' }) : createContainerdRuntime(all)
}

async function withRuntime<T>(kind: string, options: Options, use: (runtime: Runtime) => Promise<T>): Promise<T> {
  const runtime = runtimeOf(kind, options)
  try {
    return await use(runtime)
  } finally {
    await runtime.close()
  }
}

function ctr(...words: readonly string[]): string {
  const { socket, namespace } = containerd()
  return execFileSync('ctr', ['--address', socket, '--namespace', namespace, ...words], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}

/** Whether the probe and the opening of a sandbox refuse, both. */
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

const showing = 'import os\nprint(os.getuid(), os.getcwd(), sorted(os.environ))'
/** Prints what a new namespace of users gives, which is the first step of most escapes by the kernel. */
const unsharing = [
  'import ctypes',
  'print("unshared" if ctypes.CDLL(None).unshare(0x10000000) == 0 else "refused", flush=True)',
]

/** Makes two hostile images in Docker and imports them: one with a link at `/dev`, one that asks for more than files. */
async function withHostileImages(
  folder: string,
  use: (images: { readonly linked: string; readonly asking: string; readonly dev: string }) => Promise<AttackEnd>,
): Promise<AttackEnd> {
  const [layer, dev] = [join(folder, 'layer'), join(folder, 'dev-of-the-host')]
  for (const path of [layer, dev]) mkdirSync(path)
  writeFileSync(join(dev, 'ptmx'), 'a file of the host')
  symlinkSync(dev, join(layer, 'dev'))
  const names = ['linked', 'asking'].map((name) => `gantry-test/${name}-${process.pid}:latest`)
  const [linked = '', asking = ''] = names
  const instructions = ['ENTRYPOINT ["/bin/false"]', 'ENV HOSTILE=variable', 'WORKDIR /proc/self/fd/8', 'USER 0']
  try {
    await commitImage(dockerSocket(), linked.split(':')[0] ?? '', [], layer)
    await commitImage(dockerSocket(), asking.split(':')[0] ?? '', instructions)
    const archive = join(folder, 'images.tar')
    await saveImages(dockerSocket(), names, archive)
    ctr('images', 'import', archive)
    return await use({ linked, asking, dev })
  } finally {
    for (const name of names) {
      await api(dockerSocket(), 'DELETE', `/images/${encodeURIComponent(name)}?force=1`).catch(() => undefined)
    }
    ctr('images', 'rm', '--sync', ...names.map((name) => `docker.io/${name}`))
  }
}

/** What a program prints that a hostile image has in the place of the init, which so applies no filter. */
async function inPlaceOfInit(folder: string, lines: readonly string[]): Promise<string> {
  const { socket, namespace } = containerd()
  const options = { address: { socket, namespace }, runtime: { name: runcName }, snapshotter: 'overlayfs', folder }
  const engine = await openContainerd({ ...options, owner: 'attack-136' }, signal)
  try {
    const { digest } = await engine.image('gantry/sandbox:standard', signal)
    const container = await engine.start(
      {
        id: `attack-${process.pid}`,
        owner: 'attack-136',
        image: digest,
        command: ['/usr/bin/python3', '-c', lines.join('\n')],
        uid: 1_900_000_000,
        memoryBytes: attackLimits.memoryBytes,
        pids: attackLimits.pids,
        processors: 1,
        diskBytes: attackLimits.diskBytes,
        filter: 'base',
        openFiles: 64,
        hasOwnKernel: false,
      },
      signal,
    )
    const [line] = (await once(container.channel, 'data', { signal: AbortSignal.timeout(20_000) })) as [Buffer]
    assert.deepEqual(await container.remove(), [])
    return line.toString()
  } finally {
    await engine.close()
  }
}

const hostile: Attack = {
  number: 136,
  title: 'a hostile image: its entry point, user, working directory, variables and a /dev that is a link to the host',
  control: async ({ unguarded }) => {
    const { stdout } = await runOnce(unguarded, {
      program: { kind: 'code', language: 'python', code: unsharing.join('\n') },
    })
    return Buffer.from(stdout.bytes).toString().startsWith('unshared') ? 'succeeded' : 'blocked'
  },
  attempt: ({ kind, folder, note }) =>
    withHostileImages(folder, async ({ linked, asking, dev }) => {
      const refused = await withRuntime(kind, { image: linked }, isRefused)
      const isUntouched =
        readdirSync(dev).length === 1 && readFileSync(join(dev, 'ptmx'), 'utf8') === 'a file of the host'
      const said = await withRuntime(kind, { image: asking }, async (runtime) => {
        const { stdout } = await runOnce(runtime, { program: { kind: 'code', language: 'python', code: showing } })
        return Buffer.from(stdout.bytes).toString()
      })
      const isOurs = /^[1-9]\d+ \/work /.test(said) && !said.includes('HOSTILE')
      // gVisor's own kernel answers the calls of an image's init.
      const init = kind === ofGvisor ? 'refused' : (await inPlaceOfInit(folder, unsharing)).trim()
      note(`a link at /dev refused: ${refused}; ${said}; as the init: ${init}`)
      return refused && isUntouched && isOurs && init === 'refused' ? 'blocked' : 'succeeded'
    }),
}

/** A program that says this as its version, and notes what else it was started for. */
function disguised(folder: string, name: string, version: string, program: string): string {
  const path = join(folder, name)
  const script = `#!/bin/sh\nfor word; do [ "$word" = --version ] && { echo '${version}'; exit 0; }; done\necho "$@" >>'${path}.log'\nexec ${program} "$@"\n`
  writeFileSync(path, script, { mode: 0o755 })
  return path
}

/** Whether an OCI program of this version is refused, and was not started for a container. */
async function isTooOld(kind: string, folder: string, version: string): Promise<boolean> {
  const program = disguised(
    folder,
    `program-${version}`,
    `${kind === ofGvisor ? 'runsc' : 'runc'} version ${version}`,
    kind === ofGvisor ? 'runsc' : 'runc',
  )
  if (kind === ofGvisor) {
    return (await withRuntime(kind, { runsc: program }, isRefused)) && !existsSync(`${program}.log`)
  }
  const { socket, namespace } = containerd()
  const runtime = { name: runcName, binary: program }
  const options = { address: { socket, namespace }, runtime, snapshotter: 'overlayfs', folder, program: 'runc' }
  try {
    await (await openContainerd({ ...options, owner: 'attack-137' }, signal)).close()
    return false
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE', String(error))
    return !existsSync(`${program}.log`)
  }
}

const old: Attack = {
  number: 137,
  title: 'an OCI runtime with known escapes: one that is too old is refused before a container is made by it',
  control: async ({ kind, folder }) =>
    (await isTooOld(kind, folder, kind === ofGvisor ? 'release-20221219.0' : '1.3.6')) ? 'blocked' : 'succeeded',
  attempt: async ({ kind, folder }) =>
    (await isTooOld(kind, folder, kind === ofGvisor ? 'release-20200115.0' : '1.1.4')) ? 'blocked' : 'succeeded',
}

/** What a request might try to ask of the engine in addition to numbers. */
const wishes = {
  privileged: true,
  capabilities: ['CAP_SYS_ADMIN'],
  mounts: [{ destination: '/host', type: 'bind', source: '/', options: ['rbind'] }],
  namespaces: [],
  seccomp: 'unconfined',
  runtime: runcName,
}

interface Inspected {
  readonly Runtime: { readonly Name: string; readonly Options?: unknown }
  readonly Spec: {
    readonly root: { readonly readonly?: boolean }
    readonly process: { readonly capabilities?: { readonly [set: string]: readonly string[] | undefined } }
    readonly mounts: readonly { readonly type: string }[]
    readonly linux: {
      readonly namespaces?: readonly { readonly type: string; readonly path?: string }[]
      readonly seccomp?: object
    }
  }
}

function isWide({ Spec: { root, process, mounts, linux } }: Inspected): boolean {
  const own = (linux.namespaces ?? []).filter(({ path }) => path === undefined).map(({ type }) => type)
  return (
    root.readonly !== true ||
    Object.values(process.capabilities ?? {}).some((set) => (set ?? []).length > 0) ||
    mounts.some(({ type }) => type === 'bind') ||
    ['pid', 'ipc', 'uts', 'mount', 'network'].some((type) => !own.includes(type)) ||
    linux.seccomp === undefined
  )
}

const privileges: Attack = {
  number: 138,
  title: 'privileged, host mounts, namespaces of the host and another OCI runtime are asked for',
  control: async () => {
    const id = `attack-138-${process.pid}`
    ctr('containers', 'create', '--privileged', '--net-host', 'gantry/sandbox:standard', id, '/bin/true')
    try {
      return isWide(JSON.parse(ctr('containers', 'info', id)) as Inspected) ? 'succeeded' : 'blocked'
    } finally {
      ctr('containers', 'rm', id)
    }
  },
  attempt: async ({ kind, runtime }) => {
    const spec = { ...wishes, limits: attackLimits, network: 'none' } satisfies SandboxSpec & typeof wishes
    const sandbox = await runtime.open(spec, signal)
    try {
      const id = `gantry-${Buffer.from(sandbox.id).toString('hex')}`
      const found = JSON.parse(ctr('containers', 'info', id)) as Inspected
      // gVisor is the program that this shim calls, so it must have been named.
      const isOwn = kind !== ofGvisor || found.Runtime.Options !== undefined
      return !isWide(found) && isOwn && found.Runtime.Name === runcName ? 'blocked' : 'succeeded'
    } finally {
      await sandbox.dispose()
    }
  },
}

const fallBack: Attack = {
  number: 139,
  title: 'the engine or its OCI runtime is absent, or another program stands behind its name: nothing runs weaker',
  control: async ({ folder, unguarded }) => {
    const trace = join(folder, 'control')
    await runOnce(unguarded, { program: { kind: 'script', script: `: >'${trace}'` } })
    return existsSync(trace) ? 'succeeded' : 'blocked'
  },
  attempt: async ({ kind, folder, note }) => {
    const impostor = disguised(folder, 'impostor', 'runsc version release-20260905.0', 'runc')
    const cases: readonly Options[] = [
      { socket: join(folder, 'no.sock') },
      { snapshotter: 'absent' },
      ...(kind === ofGvisor
        ? [
            { runtime: 'io.containerd.absent.v1' },
            { runsc: join(folder, 'absent') },
            { runsc: '/usr/sbin/runc' },
            { runsc: impostor },
          ]
        : []),
    ]
    for (const options of cases) {
      const trace = join(folder, 'trace')
      const strong = runtimeOf(kind, options)
      const weak = createUnsafeHostRuntime()
      const both = createRuntimes({ runtimes: [weak, strong], pool: false, profiles: { dev: { unsafeHost: true } } })
      try {
        for (const demand of [{ runtime: strong.kind }, { floor: strong.isolation }]) {
          const program = { kind: 'script', script: `: >'${trace}'` } as const
          await assert.rejects(both.run({ program, profile: 'dev', ...demand }, signal), (error) => {
            note(`${JSON.stringify(options)}: ${String(error)}`)
            return ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE'
          })
        }
      } finally {
        await both.close()
      }
      if (existsSync(trace)) return 'succeeded'
    }
    return 'blocked'
  },
}

/** Attacks 136–139 of the list in containerd, whose containers have no policy but ours. */
export const containerdOwnAttacks: readonly Attack[] = [hostile, old, privileges, fallBack]
