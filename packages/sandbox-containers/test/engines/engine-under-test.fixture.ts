import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Runtime } from '@gantry/sandbox'
import {
  type ContainerOptions,
  createContainerdRuntime,
  createDockerRuntime,
  createGvisorRuntime,
} from '@gantry/sandbox-containers'
import { type ContainerdServer, startContainerd } from '../../../../scripts/engines/containerd.ts'
import { type DockerServer, startDocker } from '../../../../scripts/engines/docker.ts'
import type { KeptServer } from '../../../../scripts/engines/keeper.ts'
import { buildContainerdFlavour, buildImage } from '../../../../scripts/engines/sandbox-images.ts'
import { api, copyImage } from './docker-api.fixture.ts'

/** An engine of a test's own, which it may kill and freeze. */
export interface EngineServer extends KeptServer {
  readonly socket: string
}

/** What is there of an engine and of its sandboxes, by what it is: containers, mounts, control groups, files. */
export interface Traces {
  readonly [what: string]: readonly string[]
}

/** One row of the tests that hold for every container engine. */
export interface EngineUnderTest {
  readonly name: string
  /** The kind of its runtime. */
  readonly kind: string
  /** Whether its client keeps one connection, which a removed socket does not end: calls go on. */
  readonly keepsConnection?: boolean
  /** Starts an engine that has the image of sandboxes and nothing else. */
  start(): Promise<EngineServer>
  runtime(socket: string, root: string): Runtime
  /** The same runtime as options of an executor. */
  options(socket: string): ContainerOptions
  /** Counts everything that the engine made; `root` is the folder of its sandboxes. */
  traces(server: EngineServer, root: string): Promise<Traces>
}

const docker: EngineUnderTest = {
  name: 'docker',
  kind: 'docker',
  start: startDockerWithImage,
  runtime: (socket, root) => createDockerRuntime({ socket, root }),
  options: (socket) => ({ docker: { socket } }),
  traces: dockerTraces,
}

const gvisor: EngineUnderTest = {
  name: 'gvisor',
  kind: 'gvisor',
  start: startDockerWithImage,
  runtime: (socket, root) => createGvisorRuntime({ socket, root }),
  options: (socket) => ({ gvisor: { socket } }),
  traces: dockerTraces,
}

const containerd: EngineUnderTest = {
  name: 'containerd',
  kind: 'containerd',
  keepsConnection: true,
  start: startContainerdWithImage,
  runtime: (socket, root) => createContainerdRuntime({ socket, namespace: namespaceOf(socket), root }),
  options: (socket) => ({ containerd: { socket, namespace: namespaceOf(socket) } }),
  traces: containerdTraces,
}

const gvisorThroughContainerd: EngineUnderTest = {
  name: 'gvisor through containerd',
  kind: 'gvisor',
  keepsConnection: true,
  start: startContainerdWithImage,
  runtime: (socket, root) =>
    createGvisorRuntime({ engine: 'containerd', socket, namespace: namespaceOf(socket), root }),
  options: (socket) => ({ gvisor: { engine: 'containerd', socket, namespace: namespaceOf(socket) } }),
  traces: containerdTraces,
}

export const enginesUnderTest: readonly EngineUnderTest[] = [docker, containerd, gvisor, gvisorThroughContainerd]

/** A containerd of the tests has the namespace of its folder's name. */
function namespaceOf(socket: string): string {
  return basename(dirname(socket))
}

/** Runs work with an engine, and stops it. */
export async function withEngine<T>(engine: EngineUnderTest, work: (server: EngineServer) => Promise<T>): Promise<T> {
  const server = await engine.start()
  try {
    return await work(server)
  } finally {
    server.resume()
    await server.stop()
  }
}

/** Counts until everything is as it was before, and answers with the last count after `mostMs`. */
export async function settledTraces(count: () => Promise<Traces>, before: Traces, mostMs = 60_000): Promise<Traces> {
  const until = performance.now() + mostMs
  for (;;) {
    const now = await count()
    if (isDeepStrictEqual(now, before) || performance.now() > until) return now
    await pause(100)
  }
}

/** Counts until two counts are the same: what ends by itself has ended. */
export async function stableTraces(count: () => Promise<Traces>): Promise<Traces> {
  for (let last = await count(); ; ) {
    await pause(500)
    const now = await count()
    if (isDeepStrictEqual(now, last)) return now
    last = now
  }
}

/** From the engine of the run, where there is one; otherwise it is built. */
async function startDockerWithImage(): Promise<DockerServer> {
  const server = await startDocker()
  try {
    const shared = process.env.GANTRY_TEST_DOCKER
    if (shared === undefined) await buildImage(server, 'standard')
    else await copyImage(shared, server.socket, 'gantry/sandbox:standard')
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function startContainerdWithImage(): Promise<ContainerdServer> {
  const server = await startContainerd()
  try {
    const { GANTRY_TEST_CONTAINERD: shared, GANTRY_TEST_CONTAINERD_NAMESPACE: namespace } = process.env
    if (shared === undefined || namespace === undefined) {
      await buildContainerdFlavour(server, 'standard')
    } else copyContainerdImage({ socket: shared, namespace }, server, 'gantry/sandbox:standard')
    return server
  } catch (error) {
    await server.stop()
    throw error
  }
}

function copyContainerdImage(from: Containerd, to: Containerd, image: string): void {
  const ctr = ({ socket, namespace }: Containerd): string[] => ['--address', socket, '--namespace', namespace, 'images']
  const folder = mkdtempSync(join(tmpdir(), 'gantry-image-'))
  try {
    const file = join(folder, 'image.tar')
    execFileSync('ctr', [...ctr(from), 'export', file, image], { stdio: 'ignore' })
    execFileSync('ctr', [...ctr(to), 'import', file], { stdio: 'ignore' })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

type Containerd = Pick<ContainerdServer, 'socket' | 'namespace'>

async function containerdTraces({ socket, folder }: EngineServer, root: string): Promise<Traces> {
  const list = (...words: readonly string[]): readonly string[] => {
    const line = ['--address', socket, '--namespace', namespaceOf(socket), ...words]
    return execFileSync('ctr', line, { encoding: 'utf8' }).split('\n').filter(Boolean)
  }
  const layers = join(folder, 'root/io.containerd.snapshotter.v1.overlayfs/snapshots')
  const found = {
    containers: list('containers', 'list', '--quiet'),
    tasks: list('tasks', 'list', '--quiet'),
    images: list('images', 'list', '--quiet'),
    snapshots: list('snapshots', 'list').map((line) => line.split(' ')[0] ?? ''),
    leases: list('leases', 'list', '--quiet'),
    layers: entriesOf(layers).map(({ name }) => name),
    mounts: mountsBelow(folder),
    cgroups: groupsOf(basename(folder)),
    processes: processesOf(folder),
    files: filesBelow(folder, (path) => path !== layers),
    // The stock of pipes for containers to come is of no sandbox.
    'files of sandboxes': filesBelow(root, (path) => basename(path) !== 'pipes'),
  }
  return Object.fromEntries(Object.entries(found).map(([what, names]) => [what, names.toSorted()]))
}

async function dockerTraces({ socket, folder }: EngineServer, root: string): Promise<Traces> {
  const list = async <T>(path: string): Promise<readonly T[]> => (await api(socket, 'GET', path)) as readonly T[]
  const { Volumes } = (await api(socket, 'GET', '/volumes')) as { Volumes: { Name: string }[] | null }
  const layers = join(folder, 'data/overlay2')
  // The engine unmounts a network namespace at once, which is counted, and removes the empty file within some minutes.
  const namespaces = join(folder, 'exec/netns')
  const found = {
    containers: (await list<{ Names: string[] }>('/containers/json?all=1')).flatMap(({ Names }) => Names),
    networks: (await list<{ Name: string }>('/networks')).map(({ Name }) => Name),
    volumes: (Volumes ?? []).map(({ Name }) => Name),
    images: (await list<{ Id: string }>('/images/json?all=1')).map(({ Id }) => Id),
    layers: entriesOf(layers).map(({ name }) => name),
    mounts: mountsBelow(folder),
    cgroups: groupsOf(basename(folder)),
    processes: processesOf(folder),
    // The files of images and of running containers are below the layers.
    files: filesBelow(folder, (path) => path !== layers && path !== namespaces),
    'files of sandboxes': filesBelow(root),
  }
  return Object.fromEntries(Object.entries(found).map(([what, names]) => [what, names.toSorted()]))
}

/** Empty for a folder that has gone in the meantime. */
function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}

export function filesBelow(folder: string, enters: (path: string) => boolean = () => true): string[] {
  return entriesOf(folder).flatMap((entry) => {
    const path = join(folder, entry.name)
    return [path, ...(entry.isDirectory() && enters(path) ? filesBelow(path, enters) : [])]
  })
}

export function mountsBelow(folder: string): string[] {
  const lines = readFileSync('/proc/self/mountinfo', 'latin1').split('\n')
  return lines.flatMap((line) => line.split(' ')[4] ?? []).filter((path) => path.startsWith(`${folder}/`))
}

/** The control groups below the one of this name, in each hierarchy. */
export function groupsOf(name: string): string[] {
  const top = '/sys/fs/cgroup'
  const hierarchies = [top, ...entriesOf(top).map((entry) => join(top, entry.name))]
  const folders = hierarchies.map((folder) => join(folder, name)).filter((folder) => existsSync(folder))
  return folders.flatMap((folder) => [folder, ...foldersBelow(folder)])
}

function foldersBelow(folder: string): string[] {
  const below = entriesOf(folder).filter((entry) => entry.isDirectory())
  return below.flatMap(({ name }) => [join(folder, name), ...foldersBelow(join(folder, name))])
}

/** Processes that have a folder among their arguments: the engine, its shims, the kernels of gVisor. */
export function processesOf(folder: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.flatMap((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
      return words.some((word) => word.includes(`${folder}/`)) ? [`${pid} ${words[0]}`] : []
    } catch {
      return []
    }
  })
}
