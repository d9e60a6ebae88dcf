import { lstat, readdir, readlink, symlink, writeFile } from 'node:fs/promises'
import { isAbsolute, join, normalize } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import { hostDevices, ownDevices } from './root-file-system-devices.ts'
import { prepareEtc } from './root-file-system-etc.ts'
import { copyFileOpen, copyFolder, makeFolder, reachable, unreachable } from './root-file-system-reach.ts'
import type { SandboxRoot } from './sandbox-root.ts'

export interface RootFileSystemOptions {
  /** The native program that is the init inside. */
  readonly launcher: string
  /** Node for JavaScript and TypeScript. */
  readonly node?: string
  /** The folder of the programs that wait for code. */
  readonly drivers?: string
  /** A folder with a system of its own (`usr`, `bin`, `etc` …) instead of the host's. */
  readonly rootfs?: string
  /** Further folders of the host, seen read-only under the same path; sockets in them can be connected to. */
  readonly readOnlyFolders?: readonly string[]
}

/** Of the host: programs and libraries, nothing that is of this machine alone. */
const hostFolders = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']
/** Made by us, whatever a root file system brings. */
const ownFolders = ['proc', 'dev', 'sys', 'run', 'tmp', 'work', 'gantry']

/**
 * What the kernel tells in /proc and no sandboxed program needs: boot options, which may hold passwords, addresses, keys,
 * and what others are doing. All of /proc is read-only besides. Few on purpose: each mount delays every start.
 */
const hidden = ['cmdline', 'kallsyms', 'kcore', 'keys', 'kmsg', 'modules', 'sched_debug', 'sysrq-trigger', 'timer_list']

/** Bubblewrap's arguments for everything but the workspace; made once, the same for all sandboxes of this process. */
export interface SystemArguments {
  readonly base: readonly string[]
  /** For sandboxes with a network: certificates. */
  readonly network: readonly string[]
  /** For JavaScript and TypeScript: Node. */
  readonly node: readonly string[]
}

/**
 * Prepares what sandboxes see of this machine. All that is small is written into one folder, which becomes their root:
 * each further mount takes a fifth of a millisecond of every start.
 */
export async function prepareRootFileSystem(
  root: SandboxRoot,
  options: RootFileSystemOptions,
): Promise<SystemArguments> {
  const folder = join(root.run, 'root')
  for (const name of ['proc', 'dev', 'work', 'gantry/egress']) await makeFolder(join(folder, name), openMode)
  await symlink('/work/.gantry/tmp', join(folder, 'tmp'))
  const system = options.rootfs === undefined ? await hostSystem(folder) : await ownSystem(root, folder, options.rootfs)
  await copyPrograms(join(folder, 'gantry'), options)
  return {
    base: [
      ...['--ro-bind', folder, '/', ...system.binds],
      ...(await extraFolders(root, folder, options)),
      ...['--proc', '/proc', ...(await hiding()), '--remount-ro', '/proc'],
      ...((await ownDevices(root)) ?? hostDevices()),
    ],
    network: system.certificates,
    node: await nodeProgram(root, options),
  }
}

const openMode = 0o755

/** What of a system is bound into the root, and what beyond that for a network. */
interface System {
  readonly binds: readonly string[]
  readonly certificates: readonly string[]
}

async function hostSystem(folder: string): Promise<System> {
  const binds = await Promise.all(hostFolders.map((name) => entry('/', name, folder)))
  const { always, certificates } = await prepareEtc(join(folder, 'etc'))
  return { binds: [...binds.flat(), ...always], certificates }
}

async function ownSystem(root: SandboxRoot, folder: string, rootfs: string): Promise<System> {
  await checkReach(root, rootfs, '/rootfs')
  const names = (await readdir(rootfs)).filter((name) => !ownFolders.includes(name))
  const binds = (await Promise.all(names.map((name) => entry(rootfs, name, folder)))).flat()
  if (names.includes('etc')) return { binds, certificates: [] }
  const { always, certificates } = await prepareEtc(join(folder, 'etc'))
  return { binds: [...binds, ...always], certificates }
}

/** A link stays a link, so that `/bin` leads where it does on the host; what is absent is left out. */
async function entry(base: string, name: string, folder: string): Promise<string[]> {
  const [path, place] = [join(base, name), join(folder, name)]
  const stats = await lstat(path).catch((error: unknown) => {
    if (isAbsent(error)) return undefined
    throw error
  })
  if (stats?.isSymbolicLink()) await symlink(await readlink(path), place)
  else if (stats?.isDirectory()) await makeFolder(place, openMode)
  else if (stats?.isFile()) await writeFile(place, '')
  else return []
  return stats.isSymbolicLink() ? [] : ['--ro-bind', path, `/${name}`]
}

async function extraFolders(root: SandboxRoot, folder: string, options: RootFileSystemOptions): Promise<string[]> {
  const { rootfs, readOnlyFolders = [] } = options
  const taken = [...ownFolders, 'etc', ...(rootfs === undefined ? hostFolders : await readdir(rootfs))]
  for (const [index, path] of readOnlyFolders.entries()) {
    const place = `/readOnlyFolders/${index}`
    const [, top = ''] = path.split('/')
    if (normalize(path) !== path || !isAbsolute(path) || top === '' || taken.includes(top)) {
      throw wrong(place, `${path} is not a plain absolute path, or is in /${top}, which a sandbox has of its own.`)
    }
    await checkReach(root, path, place)
    await makeFolder(join(folder, path), openMode)
  }
  return readOnlyFolders.flatMap((path) => ['--ro-bind', path, path])
}

async function checkReach({ privileged }: SandboxRoot, folder: string, place: string): Promise<void> {
  const closed = await unreachable(folder, 'read').catch((error: unknown) => {
    if (isAbsent(error)) throw wrong(place, `${folder} does not exist.`)
    throw error
  })
  if (privileged && closed !== undefined) {
    throw wrong(place, `${folder} cannot be read by sandboxes, because ${closed} is closed to others.`)
  }
}

/** `node` and `egress` are put over, where a sandbox has them. */
async function copyPrograms(folder: string, { launcher, drivers }: RootFileSystemOptions): Promise<void> {
  await copyFileOpen(launcher, join(folder, 'init'), 0o555)
  await writeFile(join(folder, 'node'), '')
  if (drivers !== undefined) await copyFolder(drivers, join(folder, 'drivers'))
}

async function nodeProgram(root: SandboxRoot, { node }: RootFileSystemOptions): Promise<string[]> {
  if (node === undefined) return []
  const path = root.privileged ? await reachable(node, join(root.run, 'node')) : node
  return ['--ro-bind', path, '/gantry/node']
}

/** Lays nothing over what the kernel refuses to others anyway. */
async function hiding(): Promise<string[]> {
  const found = await Promise.all(
    hidden.map(async (name) => {
      const path = join('/proc', name)
      const stats = await lstat(path).catch(() => undefined)
      return stats === undefined || (stats.mode & 0o006) === 0 ? [] : ['--ro-bind', '/dev/null', path]
    }),
  )
  return found.flat()
}

function wrong(path: string, message: string): ToolError {
  return new ToolError('CONFIG_INVALID', message, { details: { issues: [{ path, message }] } })
}
