import { join } from 'node:path'
import { codeOf } from '@gantry/core/internal/files/private-file'
import type { CgroupFiles } from './cgroups-files.ts'
import type { CgroupTree } from './cgroups-layout.ts'

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
