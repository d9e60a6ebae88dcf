import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { codeOf, isAbsent } from '@gantry/core/internal/files/private-file'

/** One hierarchy of control groups, and where in it this process is. */
export interface CgroupTree {
  readonly version: 1 | 2
  /** What is counted and limited here; for version 2 what is really there is read from the group itself. */
  readonly controllers: readonly string[]
  /** The group that this process is in, as a folder. */
  readonly folder: string
}

/**
 * The hierarchies that are mounted here and hold this process, from the text of `/proc/self/cgroup` and
 * `/proc/self/mountinfo`: version 1 trees by controller, one version 2 tree, or, in the hybrid layout, both.
 */
export function readLayout(cgroup: string, mountinfo: string): CgroupTree[] {
  const memberships = cgroup.split('\n').flatMap(membershipOf)
  return mountinfo.split('\n').flatMap((line) => {
    const mount = mountOf(line)
    const membership = memberships.find((one) => mount !== undefined && isIn(mount, one))
    if (mount === undefined || membership === undefined) return []
    const folder = folderOf(mount, membership.path)
    return folder === undefined ? [] : [{ version: mount.version, controllers: mount.controllers, folder }]
  })
}

interface Membership {
  /** Empty for version 2. */
  readonly controllers: readonly string[]
  readonly path: string
}

interface Mount {
  readonly version: 1 | 2
  readonly controllers: readonly string[]
  /** Which group of the hierarchy is seen at the mount point. */
  readonly root: string
  readonly point: string
}

function membershipOf(line: string): Membership[] {
  const [, , controllers, path] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? []
  if (controllers === undefined || path === undefined) return []
  return [{ controllers: controllers.split(',').filter(Boolean), path }]
}

function mountOf(line: string): Mount | undefined {
  const [before = '', after] = line.split(' - ')
  if (after === undefined) return undefined
  const [, , , root = '', point = ''] = before.split(' ')
  const [type, , options = ''] = after.split(' ')
  if (type !== 'cgroup' && type !== 'cgroup2') return undefined
  const version = type === 'cgroup' ? 1 : 2
  const controllers = version === 1 ? options.split(',').filter((option) => option !== 'rw' && option !== 'ro') : []
  return { version, controllers, root: unescaped(root), point: unescaped(point) }
}

function isIn(mount: Mount, { controllers }: Membership): boolean {
  if (mount.version === 2) return controllers.length === 0
  return controllers.some((controller) => mount.controllers.includes(controller))
}

/** A container may see only its part of a hierarchy, mounted as if it were the whole. */
function folderOf({ root, point }: Mount, path: string): string | undefined {
  if (root === '/') return path === '/' ? point : `${point}${path}`
  if (path === root) return point
  return path.startsWith(`${root}/`) ? `${point}${path.slice(root.length)}` : undefined
}

/** The kernel writes spaces, tabs, newlines and backslashes of paths in octal. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}

/** Controllers that hold a limit or count for one. */
export const usedControllers = ['memory', 'pids', 'cpu', 'cpuacct'] as const

export type Controller = (typeof usedControllers)[number]

/** A hierarchy in which this process has a group of its own to put sandboxes in. */
export interface OpenTree {
  readonly version: 1 | 2
  readonly controllers: readonly Controller[]
  /** The group above the groups of the sandboxes. */
  readonly parent: string
  /** Why it has no controllers, in a sentence. */
  readonly lacks?: string
  /** Puts back what was changed outside of `parent`; called after that is removed. */
  restore(): Promise<void>
}

/** Makes a group for this process under the one it is in; rejects with what the system says when it may not. */
export async function openTree(files: CgroupFiles, tree: CgroupTree, name: string): Promise<OpenTree> {
  return tree.version === 1 ? openFirst(files, tree, name) : openSecond(files, tree, name)
}

async function openFirst(files: CgroupFiles, { controllers, folder }: CgroupTree, name: string): Promise<OpenTree> {
  const parent = join(folder, name)
  await files.make(parent)
  return { version: 1, controllers: used(controllers), parent, restore: async () => undefined }
}

/**
 * In version 2 a group that has processes gives no controllers to the groups below it, the root excepted. So, where
 * this process is alone in its group, it moves into a group beside those of its sandboxes, and back at the end.
 */
async function openSecond(files: CgroupFiles, { folder }: CgroupTree, name: string): Promise<OpenTree> {
  const offered = used(words(await files.read(join(folder, 'cgroup.controllers'))))
  const parent = join(folder, name)
  await files.make(parent)
  try {
    const restore = await handDown(files, folder, offered, `${parent}-self`)
    await enable(files, parent, offered)
    return { version: 2, controllers: offered, parent, restore }
  } catch (error) {
    if (codeOf(error) !== 'EBUSY') {
      await files.remove(parent)
      throw error
    }
    const lacks = `The control group ${folder} holds other processes too, so it can limit none below it.`
    // Without controllers the group still kills everything at once, and counts processor time.
    return { version: 2, controllers: [], parent, lacks, restore: async () => undefined }
  }
}

/** Gives controllers to the groups below; resolves to what undoes the move that this took. */
async function handDown(
  files: CgroupFiles,
  folder: string,
  controllers: readonly Controller[],
  self: string,
): Promise<() => Promise<void>> {
  try {
    await enable(files, folder, controllers)
    return async () => undefined
  } catch (error) {
    if (codeOf(error) !== 'EBUSY' || !(await isAlone(files, folder))) throw error
  }
  const back = async (): Promise<void> => {
    await files.write(join(folder, 'cgroup.subtree_control'), controllers.map((one) => `-${one}`).join(' '))
    await files.write(join(folder, 'cgroup.procs'), String(process.pid))
    await files.remove(self)
  }
  await files.make(self)
  try {
    await files.write(join(self, 'cgroup.procs'), String(process.pid))
    await enable(files, folder, controllers)
    return back
  } catch (error) {
    await back().catch(() => undefined)
    throw error
  }
}

async function enable(files: CgroupFiles, folder: string, controllers: readonly Controller[]): Promise<void> {
  const file = join(folder, 'cgroup.subtree_control')
  const enabled = words(await files.read(file))
  const wanted = controllers.filter((controller) => !enabled.includes(controller))
  if (wanted.length > 0) await files.write(file, wanted.map((one) => `+${one}`).join(' '))
}

async function isAlone(files: CgroupFiles, folder: string): Promise<boolean> {
  const pids = words(await files.read(join(folder, 'cgroup.procs')))
  return pids.every((pid) => Number(pid) === process.pid)
}

function used(controllers: readonly string[]): Controller[] {
  return usedControllers.filter((controller) => controllers.includes(controller))
}

function words(text: string): string[] {
  return text.split(/\s+/).filter(Boolean)
}

const mostRounds = 200
const roundMs = 10

/**
 * Kills everything in a group and below, and removes the groups. Tolerates others that do the same at the same time.
 * Resolves to whether the group is gone; it is not when a process does not die within about two seconds.
 */
export async function removeCgroup(files: CgroupFiles, folder: string): Promise<boolean> {
  for (let round = 0; round < mostRounds; round += 1) {
    const groups = await below(files, folder)
    await Promise.all(groups.map((group) => killAll(files, group)))
    for (const group of groups) await files.remove(group).catch(harmless)
    if ((await below(files, folder)).length === 0) return true
    await pause(roundMs)
  }
  return false
}

/** The group and all groups below it, the deepest first; none when it does not exist. */
async function below(files: CgroupFiles, folder: string): Promise<string[]> {
  const names = await files.groups(folder).catch((error: unknown) => {
    if (gone(error)) return undefined
    throw error
  })
  if (names === undefined) return []
  const inner = await Promise.all(names.map((name) => below(files, join(folder, name))))
  return [...inner.flat(), folder]
}

async function killAll(files: CgroupFiles, group: string): Promise<void> {
  await files.write(join(group, 'cgroup.kill'), '1').catch(() => undefined)
  const pids = await files.read(join(group, 'cgroup.procs')).catch(() => '')
  for (const pid of pids.split('\n').map(Number)) if (pid > 0 && pid !== process.pid) kill(pid)
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error
  }
}

function harmless(error: unknown): void {
  if (!gone(error) && codeOf(error) !== 'EBUSY' && codeOf(error) !== 'ENOTEMPTY') throw error
}

/** A group that is being removed answers ENODEV. */
function gone(error: unknown): boolean {
  return isAbsent(error) || codeOf(error) === 'ENODEV'
}

/** What is done with the files of control groups; a test puts a tree with the kernel's rules in its place. */
export interface CgroupFiles {
  /** Whether the file exists, which shows what the kernel supports. */
  has(path: string): Promise<boolean>
  read(path: string): Promise<string>
  write(path: string, text: string): Promise<void>
  make(folder: string): Promise<void>
  /** Rejects with EBUSY while processes or groups are in it. */
  remove(folder: string): Promise<void>
  /** The names of the groups right below a group. */
  groups(folder: string): Promise<string[]>
}

export const kernelFiles: CgroupFiles = {
  has: (path) =>
    access(path).then(
      () => true,
      () => false,
    ),
  read: (path) => readFile(path, 'utf8'),
  write: (path, text) => writeFile(path, text, { flag: 'r+' }),
  make: (folder) => mkdir(folder, { mode: 0o755 }),
  remove: (folder) => rmdir(folder),
  groups: async (folder) =>
    (await readdir(folder, { withFileTypes: true })).flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])),
}
