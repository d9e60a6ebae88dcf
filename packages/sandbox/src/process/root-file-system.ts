import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, lstatSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs'
import { chmod, copyFile, lstat, open, readdir, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Issue, ToolError } from '@gantry/contract'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import type { PackageKind } from '@gantry/core/internal/runtimes/runtime'
import { copyFileOpen, copyFolder, makeFolder, reachable, unreachable } from './file-access.ts'
import type { SandboxRoot } from './sandbox-root.ts'

export interface RootFileSystemOptions {
  /** The native program that is the init inside. */
  readonly launcher: string
  /** Node for JavaScript and TypeScript. */
  readonly node?: string
  /** The folder of the language drivers. */
  readonly drivers?: string
  /** A folder with a root file system (`usr`, `bin`, `etc` …) that replaces the host's. */
  readonly rootfs?: string
  /** Further host folders, mounted read-only under the same path; programs can connect to sockets in them. */
  readonly readOnlyFolders?: readonly string[]
  /** Folders with packages, which the sandboxes can read; each is mounted where its interpreter looks. */
  readonly layers?: ReadonlyMap<PackageKind, string>
}

/** Where the interpreters look for packages: Python by PYTHONUSERBASE, Node.js from /work upwards. */
export const layerPlaces: { readonly [Kind in PackageKind]: string } = {
  python: '/gantry/python',
  node: '/node_modules',
}

/** Host folders with programs and libraries, without data of this machine. */
const hostFolders = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']
/** Folders that the sandbox provides, whatever a root file system contains. */
const ownFolders = ['proc', 'dev', 'sys', 'run', 'tmp', 'work', 'gantry', 'node_modules']

/**
 * Files in /proc that no sandboxed program needs: boot options, which may contain passwords, addresses, keys and activity of
 * other processes. All of /proc is read-only as well. The list is short because each mount delays every start.
 */
const hidden = ['cmdline', 'kallsyms', 'kcore', 'keys', 'kmsg', 'modules', 'sched_debug', 'sysrq-trigger', 'timer_list']

/** Bubblewrap's arguments for everything but the workspace; created once for all sandboxes of this process. */
export interface SystemArguments {
  readonly base: readonly string[]
  /** For sandboxes with a network: CA certificates. */
  readonly network: readonly string[]
  /** For JavaScript and TypeScript: Node. */
  readonly node: readonly string[]
  /** For programs that find packages, by kind. */
  readonly layers: ReadonlyMap<PackageKind, readonly string[]>
}

/**
 * Prepares the root file system of sandboxes. Small files are written into one folder, which becomes the root, because
 * each further mount adds a fifth of a millisecond to every start.
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
  const layers = new Map<PackageKind, readonly string[]>()
  for (const [kind, path] of options.layers ?? []) {
    await makeFolder(join(folder, layerPlaces[kind]), openMode)
    layers.set(kind, ['--ro-bind', path, layerPlaces[kind]])
  }
  return {
    base: [
      ...['--ro-bind', folder, '/', ...system.binds],
      ...(await extraFolders(root, folder, options)),
      ...['--proc', '/proc', ...(await hiding()), '--remount-ro', '/proc'],
      ...((await ownDevices(root)) ?? hostDevices()),
    ],
    network: system.certificates,
    node: await nodeProgram(root, options),
    layers,
  }
}

const openMode = 0o755

/** Mounts of a system: always, and for sandboxes with a network. */
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
  const fault = await reachFault(rootfs, root.privileged)
  if (fault !== undefined) throw wrong('/rootfs', fault)
  const names = (await readdir(rootfs)).filter((name) => !ownFolders.includes(name))
  const binds = (await Promise.all(names.map((name) => entry(rootfs, name, folder)))).flat()
  if (names.includes('etc')) return { binds, certificates: [] }
  const { always, certificates } = await prepareEtc(join(folder, 'etc'))
  return { binds: [...binds, ...always], certificates }
}

/** A symbolic link is copied, so that `/bin` points where it does on the host; a missing entry is left out. */
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
  const taken = await takenNames(rootfs)
  for (const [index, path] of readOnlyFolders.entries()) {
    const fault = placeFault(path, taken) ?? (await reachFault(path, root.privileged))
    if (fault !== undefined) throw wrong(`/readOnlyFolders/${index}`, fault)
    await makeFolder(join(folder, path), openMode)
  }
  return readOnlyFolders.flatMap((path) => ['--ro-bind', path, path])
}

/** The top folders that no folder of the host can be mounted in. */
async function takenNames(rootfs: string | undefined): Promise<readonly string[]> {
  return [...ownFolders, 'etc', ...(rootfs === undefined ? hostFolders : await readdir(rootfs))]
}

function placeFault(path: string, taken: readonly string[]): string | undefined {
  const [, top = ''] = path.split('/')
  if (normalize(path) === path && isAbsolute(path) && top !== '' && !taken.includes(top)) return undefined
  return `${path} is not a plain absolute path, or is in /${top}, which a sandbox has of its own.`
}

async function reachFault(folder: string, privileged: boolean): Promise<string | undefined> {
  try {
    const closed = await unreachable(folder, 'read')
    if (!privileged || closed === undefined) return undefined
    return `${folder} cannot be read by sandboxes, because other users cannot access ${closed}.`
  } catch (error) {
    if (isAbsent(error)) return `${folder} does not exist.`
    throw error
  }
}

/** Every wrong folder of the options, as the first sandbox would find them, without starting one. */
export async function folderIssues({
  rootfs,
  readOnlyFolders = [],
}: Pick<RootFileSystemOptions, 'rootfs' | 'readOnlyFolders'>): Promise<readonly Issue[]> {
  const privileged = process.getuid?.() === 0
  const fault = rootfs === undefined ? undefined : await reachFault(rootfs, privileged)
  if (fault !== undefined) return [{ path: '/rootfs', message: fault }]
  const taken = await takenNames(rootfs)
  const found = readOnlyFolders.map(async (path, index): Promise<readonly Issue[]> => {
    const message = placeFault(path, taken) ?? (await reachFault(path, privileged))
    return message === undefined ? [] : [{ path: `/readOnlyFolders/${index}`, message }]
  })
  return (await Promise.all(found)).flat()
}

/** Copies the init and the drivers; `node` is a mount point, over which Node is bound when a sandbox needs it. */
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

/** Hides only files that other users can read. */
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

/** The harmless devices that programs expect, with their numbers. */
const nodes: { readonly [name: string]: readonly [major: string, minor: string] } = {
  null: ['1', '3'],
  zero: ['1', '5'],
  full: ['1', '7'],
  random: ['1', '8'],
  urandom: ['1', '9'],
}
const links: { readonly [name: string]: string } = {
  fd: '/proc/self/fd',
  stdin: '/proc/self/fd/0',
  stdout: '/proc/self/fd/1',
  stderr: '/proc/self/fd/2',
  shm: '/work/.gantry/shm',
}
const run = promisify(execFile)

/**
 * A /dev with our own device nodes, for one mount instead of seven. It belongs to root, so programs cannot write to it; a
 * read-only bind would make its devices unusable. Undefined where device nodes cannot be created or used: that needs root
 * and a file system without nodev.
 */
async function ownDevices({ run: own, privileged }: SandboxRoot): Promise<string[] | undefined> {
  if (!privileged) return undefined
  const folder = join(own, 'dev')
  try {
    await makeFolder(folder, 0o755)
    // Names and numbers are constants; one shell creates all nodes, because each program takes 10 ms to start.
    const lines = Object.entries(nodes).map(([name, [major, minor]]) => `mknod -m 666 ${name} c ${major} ${minor}`)
    await run('/bin/sh', ['-ec', lines.join('\n')], { cwd: folder, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } })
    for (const name of Object.keys(nodes)) await (await open(join(folder, name), 'r+')).close()
    for (const [name, target] of Object.entries(links)) await symlink(target, join(folder, name))
    return ['--dev-bind', folder, '/dev']
  } catch {
    return undefined
  }
}

/** The host's devices, each bound into an otherwise empty /dev. */
function hostDevices(): string[] {
  return [
    ...['--size', '65536', '--perms', '0755', '--tmpfs', '/dev'],
    ...Object.keys(nodes).flatMap((name) => ['--dev-bind', `/dev/${name}`, `/dev/${name}`]),
    ...Object.entries(links).flatMap(([name, target]) => ['--symlink', target, `/dev/${name}`]),
    ...['--remount-ro', '/dev'],
  ]
}

/** The accounts and settings that a program sees; none is the host's. */
const written: { readonly [name: string]: string } = {
  passwd:
    'root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n',
  group: 'root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
  // No DNS: name servers are unreachable, and a lookup should fail at once.
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n',
}

/** Files that interpreters, the dynamic loader and TLS libraries read; none identifies the host. */
const copied = [
  'fonts/fonts.conf',
  'ld.so.cache',
  'localtime',
  'mime.types',
  'os-release',
  'protocols',
  'services',
  'ssl/cert.pem',
  'ssl/openssl.cnf',
  'pki/tls/cert.pem',
  'pki/tls/openssl.cnf',
]
/** CA certificates are many and change, so they are bound; only a sandbox with a network needs them. */
const certificates = [
  'ca-certificates/extracted',
  'crypto-policies/back-ends',
  'pki/ca-trust/extracted',
  'pki/java',
  'pki/tls/certs',
  'ssl/certs',
]
const mostBytes = 4_194_304

/** Folders of the host's /etc that are bound into the sandbox's /etc. */
interface EtcBinds {
  /** Folders with hundreds of links, whose copy would take longer than the mounts of many starts. */
  readonly always: readonly string[]
  /** For sandboxes with a network. */
  readonly certificates: readonly string[]
}

/** Writes a small /etc into `folder`, and resolves to bubblewrap's arguments for its bind mounts. */
async function prepareEtc(folder: string): Promise<EtcBinds> {
  await makeFolder(folder, openMode)
  for (const [name, text] of Object.entries(written)) await writeOpen(join(folder, name), text)
  for (const name of copied) await copy(name, folder)
  const java = (await readdir('/etc')).filter((name) => /^java(-\d+[a-z0-9-]*)?$/.test(name))
  for (const name of java) {
    const from = join('/etc', name)
    if (await isOpenFolder(from)) copyTree(from, join(folder, name))
  }
  return { always: await bind(['alternatives'], folder), certificates: await bind(certificates, folder) }
}

async function bind(names: readonly string[], folder: string): Promise<string[]> {
  const args: string[] = []
  for (const name of names) {
    const path = join('/etc', name)
    if (!(await isOpenFolder(path))) continue
    await makeFolder(join(folder, name), openMode)
    args.push('--ro-bind', path, path)
  }
  return args
}

/** Copies a small folder with its links; files that others cannot read are left out. */
function copyTree(from: string, to: string): void {
  mkdirSync(to)
  chmodSync(to, openMode)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), copy)
    else if ((lstatSync(source).mode & 0o004) === 0) continue
    else if (entry.isDirectory()) copyTree(source, copy)
    else if (entry.isFile() && lstatSync(source).size <= mostBytes) {
      copyFileSync(source, copy)
      chmodSync(copy, 0o444)
    }
  }
}

/** Links are copied unchanged, and only those into /usr, which is the same inside. */
async function copy(name: string, folder: string): Promise<void> {
  const [from, to] = [join('/etc', name), join(folder, name)]
  const stats = await lstat(from).catch(absent)
  if (stats === undefined) return
  if (stats.isSymbolicLink()) {
    const target = await readlink(from)
    if (!resolve(dirname(from), target).startsWith('/usr/')) return
    await makeFolder(dirname(to), openMode)
    await symlink(target, to)
  } else if (stats.isFile() && stats.size <= mostBytes && (await unreachable(from, 'read')) === undefined) {
    await makeFolder(dirname(to), openMode)
    await copyFile(from, to)
    await chmod(to, 0o444)
  }
}

async function isOpenFolder(path: string): Promise<boolean> {
  const stats = await stat(path).catch(absent)
  return stats?.isDirectory() === true && (await unreachable(path, 'read')) === undefined
}

async function writeOpen(path: string, text: string): Promise<void> {
  await writeFile(path, text, { flag: 'wx' })
  await chmod(path, 0o444)
}

function absent(error: unknown): undefined {
  if (isAbsent(error)) return undefined
  throw error
}
