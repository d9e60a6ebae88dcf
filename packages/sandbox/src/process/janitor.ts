import { readdir, readFile, rm, statfs } from 'node:fs/promises'
import { basename, isAbsolute, join } from 'node:path'
import { isAbsent } from '@gantry/core/internal/files/private-file'
import { type CgroupFiles, kernelFiles, removeCgroup } from './cgroup-trees.ts'
import { groupName, ownTrees } from './cgroups.ts'
import { type SandboxRoot, stateOf } from './sandbox-root.ts'
import { claimsFolder, ownerOfClaim } from './uids.ts'

/** The result of a janitor. */
export interface Swept {
  /** Folders, control groups and claims that were removed. */
  readonly removed: readonly string[]
  /** Leftovers that contain a process which does not die; a later janitor tries again. */
  readonly stuck: readonly string[]
}

/** The file in an owner's folder that lists its control groups, one per line. Written before they are created. */
const groupsFile = 'cgroups'

/** The file that lists the control groups of this process, for the janitor of a later process. */
export function groupsFileOf({ run }: Pick<SandboxRoot, 'run'>): string {
  return join(run, groupsFile)
}

/**
 * Removes everything of owners that died without cleaning up: processes in their control groups, the groups, their
 * folders, and last their uid claims. Never touches what belongs to a live owner or to one whose state is unknown.
 * Several janitors may run concurrently.
 */
export async function sweep(folder: string, files: CgroupFiles = kernelFiles): Promise<Swept> {
  const entries = await names(folder)
  const runs = entries.filter((entry) => entry.startsWith('run-') && stateOf(entry.slice('run-'.length)) === 'dead')
  const groups = new Set([...(await nearbyGroups(files)), ...(await Promise.all(runs.map(groupsOf(folder)))).flat()])
  const removed: string[] = []
  const stuck: string[] = []
  for (const group of groups) {
    const there = await files.has(group)
    if (!there) continue
    const gone = await removeCgroup(files, group).catch(() => false)
    if (gone) removed.push(group)
    else stuck.push(group)
  }
  const ownersLeft = new Set(stuck.map((group) => basename(group).replace(/^gantry-|-self$/g, '')))
  for (const run of runs) {
    if (ownersLeft.has(run.slice('run-'.length))) continue
    // Another janitor may remove the same folder: what it has not removed yet is not empty for a moment.
    await rm(join(folder, run), { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
    removed.push(join(folder, run))
  }
  const claims = claimsFolder(folder)
  for (const claim of await names(claims)) {
    const owner = ownerOfClaim(claim)
    if (owner === undefined || stateOf(owner) !== 'dead' || ownersLeft.has(owner)) continue
    await rm(join(claims, claim), { force: true })
    removed.push(join(claims, claim))
  }
  return { removed, stuck }
}

/** Groups of dead owners beside our own, whatever their root folder. */
async function nearbyGroups(files: CgroupFiles): Promise<string[]> {
  const trees = await ownTrees(undefined)
  const found = await Promise.all(
    trees.map(async ({ folder }) =>
      (await files.groups(folder).catch(() => [])).filter(isOfTheDead).map((name) => join(folder, name)),
    ),
  )
  return found.flat()
}

function isOfTheDead(name: string): boolean {
  return name.startsWith('gantry-') && stateOf(name.slice('gantry-'.length).replace(/-self$/, '')) === 'dead'
}

/** The groups that an owner listed and that have its name. */
function groupsOf(folder: string): (run: string) => Promise<string[]> {
  return async (run) => {
    const name = groupName(run.slice('run-'.length))
    const text = await readFile(join(folder, run, groupsFile), 'utf8').catch(() => '')
    const named = text.split('\n').filter((path) => isAbsolute(path) && [name, `${name}-self`].includes(basename(path)))
    const real = await Promise.all(named.map(isControlGroup))
    return named.filter((_, index) => real[index])
  }
}

/** The list is not trusted; only a folder that the kernel created counts as a group. */
async function isControlGroup(path: string): Promise<boolean> {
  const type = await statfs(path).then(
    (stats) => stats.type,
    () => 0,
  )
  return type === 0x27e0eb || type === 0x6367_7270
}

async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isAbsent(error)) return []
    throw error
  })
}
