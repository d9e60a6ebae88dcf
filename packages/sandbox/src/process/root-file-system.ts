import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, lstatSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs'
import { chmod, copyFile, lstat, open, readdir, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, normalize, resolve } from 'node:path'
import { promisify } from 'node:util'
import { ToolError } from '@gantry/contract'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import { copyFileOpen, copyFolder, makeFolder, reachable, unreachable } from './file-access.ts'
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
 * What the kernel shows in /proc and no sandboxed program needs: boot options, which may hold passwords, addresses, keys,
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

/** The devices that programs expect, and that lead nowhere, with their numbers. */
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
 * A /dev made by us, for one mount instead of seven. It belongs to root, so that no program inside writes to it; made
 * read-only by bubblewrap, it would lose its devices. Undefined where devices cannot be made or used: only root may make
 * them, and not on a file system that has none.
 */
async function ownDevices({ run: own, privileged }: SandboxRoot): Promise<string[] | undefined> {
  if (!privileged) return undefined
  const folder = join(own, 'dev')
  try {
    await makeFolder(folder, 0o755)
    // The names and numbers are ours; one shell for all of them, because each program takes 10 ms to start.
    const lines = Object.entries(nodes).map(([name, [major, minor]]) => `mknod -m 666 ${name} c ${major} ${minor}`)
    await run('/bin/sh', ['-ec', lines.join('\n')], { cwd: folder, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } })
    for (const name of Object.keys(nodes)) await (await open(join(folder, name), 'r+')).close()
    for (const [name, target] of Object.entries(links)) await symlink(target, join(folder, name))
    return ['--dev-bind', folder, '/dev']
  } catch {
    return undefined
  }
}

/** The host's devices, each bound into a /dev that is otherwise empty. */
function hostDevices(): string[] {
  return [
    ...['--size', '65536', '--perms', '0755', '--tmpfs', '/dev'],
    ...Object.keys(nodes).flatMap((name) => ['--dev-bind', `/dev/${name}`, `/dev/${name}`]),
    ...Object.entries(links).flatMap(([name, target]) => ['--symlink', target, `/dev/${name}`]),
    ...['--remount-ro', '/dev'],
  ]
}

/** Who a program finds itself to be; nothing in it is of the host. */
const written: { readonly [name: string]: string } = {
  passwd:
    'root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/work:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n',
  group: 'root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
  // No name servers are asked: none can be reached, and a program should hear so at once.
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n',
}

/** What interpreters, the dynamic loader and TLS libraries read; none of it identifies the host. */
const copied = [
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
/** Certificates are many and change, so that they are bound; only a sandbox with a network reads them. */
const certificates = [
  'ca-certificates/extracted',
  'crypto-policies/back-ends',
  'pki/ca-trust/extracted',
  'pki/java',
  'pki/tls/certs',
  'ssl/certs',
]
const mostBytes = 4_194_304

/** Folders of the host's /etc that are bound into ours. */
interface EtcBinds {
  /** Hundreds of links, which take longer to copy than a mount does for many starts. */
  readonly always: readonly string[]
  /** For sandboxes with a network. */
  readonly certificates: readonly string[]
}

/** Writes a small /etc into `folder`, and resolves to bubblewrap's arguments for what is bound into it. */
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

/** A small folder with the links in it as they are; what others may not read stays out. */
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

/** Links are copied as they are, and only into /usr, which is the same inside. */
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
