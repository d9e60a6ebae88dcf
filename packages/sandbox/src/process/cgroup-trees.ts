import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { codeOf, isAbsent } from '@gantry/core/internal/files/private-file'

/** One cgroup hierarchy and the position of this process in it. */
export interface CgroupTree {
  readonly version: 1 | 2
  /** Controllers of this hierarchy; for cgroup v2 they are read from the group itself. */
  readonly controllers: readonly string[]
  /** The folder of the group that contains this process. */
  readonly folder: string
}

/**
 * The mounted hierarchies that contain this process, from the text of `/proc/self/cgroup` and `/proc/self/mountinfo`:
 * cgroup v1 trees by controller, one v2 tree, or both in the hybrid layout.
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
  /** Empty for cgroup v2. */
  readonly controllers: readonly string[]
  readonly path: string
}

interface Mount {
  readonly version: 1 | 2
  readonly controllers: readonly string[]
  /** The group of the hierarchy that is visible at the mount point. */
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

/** A container may see only its part of a hierarchy, mounted as if it were the root. */
function folderOf({ root, point }: Mount, path: string): string | undefined {
  if (root === '/') return path === '/' ? point : `${point}${path}`
  if (path === root) return point
  return path.startsWith(`${root}/`) ? `${point}${path.slice(root.length)}` : undefined
}

/** The kernel escapes spaces, tabs, newlines and backslashes in paths as octal. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}

/** Controllers that enforce or measure a limit. */
export const usedControllers = ['memory', 'pids', 'cpu', 'cpuacct'] as const

export type Controller = (typeof usedControllers)[number]

/** A hierarchy in which this process has its own group for sandboxes. */
export interface OpenTree {
  readonly version: 1 | 2
  readonly controllers: readonly Controller[]
  /** The parent of the groups of the sandboxes. */
  readonly parent: string
  /** Why it has no controllers, as a sentence. */
  readonly lacks?: string
  /** Reverts changes outside of `parent`; called after `parent` is removed. */
  restore(): Promise<void>
}

/** Creates a group for this process below its own; rejects with the system error when that is not permitted. */
export async function openTree(files: CgroupFiles, tree: CgroupTree, name: string): Promise<OpenTree> {
  return tree.version === 1 ? openFirst(files, tree, name) : openSecond(files, tree, name)
}

async function openFirst(files: CgroupFiles, { controllers, folder }: CgroupTree, name: string): Promise<OpenTree> {
  const parent = join(folder, name)
  await files.make(parent)
  return { version: 1, controllers: used(controllers), parent, restore: async () => undefined }
}

/**
 * In cgroup v2 a group with processes, except the root, cannot enable controllers for its children. So a process that
 * is alone in its group moves to a child group beside those of its sandboxes, and back at the end.
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
    const lacks = `The control group ${folder} contains other processes, so it cannot enable controllers for its children.`
    // Without controllers the group still supports cgroup.kill and measures CPU time.
    return { version: 2, controllers: [], parent, lacks, restore: async () => undefined }
  }
}

/** Enables controllers for the child groups; resolves to a function that reverts the move. */
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
 * Kills everything in a group and below, and removes the groups. Safe to run concurrently with other janitors.
 * Resolves to whether the group is removed; false when a process does not die within about two seconds.
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

/** The group and all groups below it, deepest first; empty when it does not exist. */
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

/** Operations on a group that is being removed fail with ENODEV. */
function gone(error: unknown): boolean {
  return isAbsent(error) || codeOf(error) === 'ENODEV'
}

/** File operations on control groups; tests replace them with a simulated kernel. */
export interface CgroupFiles {
  /** Whether the file exists, which shows what the kernel supports. */
  has(path: string): Promise<boolean>
  read(path: string): Promise<string>
  write(path: string, text: string): Promise<void>
  make(folder: string): Promise<void>
  /** Rejects with EBUSY while it contains processes or groups. */
  remove(folder: string): Promise<void>
  /** The names of the direct child groups. */
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
