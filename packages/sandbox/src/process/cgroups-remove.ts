import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { codeOf, isAbsent } from '@gantry/core/internal/files/private-file'
import type { CgroupFiles } from './cgroups-files.ts'

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
