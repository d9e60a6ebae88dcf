import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { HostProcess } from './host.ts'

/**
 * Whether a process is a launcher that waits for its first plan, and so belongs to no sandbox: a child of ours with none of
 * its own, in our control groups and mount namespace, in the root folder and without an environment, that holds nothing
 * but its two channels. One that has started a sandbox has closed the first of them and holds what bubblewrap says.
 */
export function isSpare({ pid, parent, command }: HostProcess, all: readonly HostProcess[]): boolean {
  if (parent !== process.pid || command.length !== 2 || command[1] !== 'supervise') return false
  if (all.some((other) => other.parent === pid)) return false
  try {
    return isLikeUs(pid) && holdsOnlyChannels(pid)
  } catch {
    return false
  }
}

function isLikeUs(pid: number): boolean {
  const same = (read: (folder: string) => string): boolean => read(`/proc/${pid}`) === read('/proc/self')
  return (
    same((folder) => readFileSync(`${folder}/cgroup`, 'utf8')) &&
    same((folder) => readlinkSync(`${folder}/ns/mnt`)) &&
    readlinkSync(`/proc/${pid}/cwd`) === '/' &&
    readFileSync(`/proc/${pid}/environ`, 'utf8') === ''
  )
}

/** What we have ourselves under the same number was handed down; the launcher closes it for whatever it starts. */
function holdsOnlyChannels(pid: number): boolean {
  const held = new Map(readdirSync(`/proc/${pid}/fd`).map((fd) => [fd, readlinkSync(`/proc/${pid}/fd/${fd}`)]))
  const isOurs = (fd: string, target: string): boolean => readlinkSync(`/proc/self/fd/${fd}`) === target
  if (!['3', '4'].every((fd) => held.get(fd)?.startsWith('socket:'))) return false
  return [...held].every(([fd, target]) => {
    if (fd === '3' || fd === '4' || target === 'anon_inode:[signalfd]') return true
    return target === '/dev/null' || isOurs(fd, target)
  })
}
