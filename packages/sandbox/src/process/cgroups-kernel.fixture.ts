import { basename, dirname } from 'node:path'
import type { CgroupFiles } from './cgroup-trees.ts'

interface Group {
  readonly pids: Set<number>
  readonly handedDown: Set<string>
  readonly written: Map<string, string>
}

/** The files of a group by controller; all of them exist only from Linux 5.19 on. */
const filesOf: { readonly [controller: string]: readonly string[] } = {
  memory: ['memory.max', 'memory.swap.max', 'memory.oom.group', 'memory.peak', 'memory.events'],
  pids: ['pids.max', 'pids.events'],
  cpu: ['cpu.max'],
}
const always = ['cgroup.controllers', 'cgroup.subtree_control', 'cgroup.procs', 'cgroup.kill', 'cpu.stat']

/**
 * A simulated cgroup v2 hierarchy with the relevant rules of the kernel: only groups without processes enable controllers
 * for their children, processes join only groups that enable none, and only empty groups are removed.
 */
export function secondKernel(mount: string, own: string, pids: readonly number[], offered: readonly string[]) {
  const groups = new Map<string, Group>([
    [mount, { pids: new Set(), handedDown: new Set(offered), written: new Map() }],
    [own, { pids: new Set(pids), handedDown: new Set(), written: new Map() }],
  ])
  const at = (folder: string): Group => groups.get(folder) ?? fail('ENOENT')
  const below = (folder: string): string[] => [...groups.keys()].filter((path) => dirname(path) === folder)
  const controllers = (folder: string): string[] => [...(groups.get(dirname(folder))?.handedDown ?? [])]
  const has = (path: string): boolean => {
    const folder = dirname(path)
    if (!groups.has(folder)) return false
    return [...always, ...controllers(folder).flatMap((one) => filesOf[one] ?? [])].includes(basename(path))
  }
  const handDown = (folder: string, text: string): void => {
    for (const word of text.split(' ')) {
      const name = word.slice(1)
      if (word.startsWith('+')) {
        if (!controllers(folder).includes(name)) fail('ENOENT')
        if (at(folder).pids.size > 0) fail('EBUSY')
        at(folder).handedDown.add(name)
      } else {
        if (below(folder).some((path) => at(path).handedDown.has(name))) fail('EBUSY')
        at(folder).handedDown.delete(name)
      }
    }
  }
  const move = (folder: string, pid: number): void => {
    if (at(folder).handedDown.size > 0) fail('EBUSY')
    for (const { pids } of groups.values()) pids.delete(pid)
    at(folder).pids.add(pid)
  }
  const files: CgroupFiles = {
    has: async (path) => groups.has(path) || has(path),
    read: async (path) => {
      if (!has(path)) fail('ENOENT')
      const group = at(dirname(path))
      if (basename(path) === 'cgroup.controllers') return `${controllers(dirname(path)).join(' ')}\n`
      if (basename(path) === 'cgroup.subtree_control') return `${[...group.handedDown].join(' ')}\n`
      if (basename(path) === 'cgroup.procs') return [...group.pids].map((pid) => `${pid}\n`).join('')
      return group.written.get(basename(path)) ?? ''
    },
    write: async (path, text) => {
      if (!has(path)) fail('ENOENT')
      if (basename(path) === 'cgroup.subtree_control') handDown(dirname(path), text)
      else if (basename(path) === 'cgroup.procs') move(dirname(path), Number(text))
      else at(dirname(path)).written.set(basename(path), text)
    },
    make: async (folder) => {
      at(dirname(folder))
      if (groups.has(folder)) fail('EEXIST')
      groups.set(folder, { pids: new Set(), handedDown: new Set(), written: new Map() })
    },
    remove: async (folder) => {
      if (at(folder).pids.size > 0 || below(folder).length > 0) fail('EBUSY')
      groups.delete(folder)
    },
    groups: async (folder) => {
      at(folder)
      return below(folder).map((path) => basename(path))
    },
  }
  const layout = {
    cgroup: `0::${own.slice(mount.length) || '/'}\n`,
    mountinfo: `30 23 0:26 / ${mount} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n`,
  }
  return { files, layout, groups: () => [...groups.keys()], pidsIn: (folder: string) => [...at(folder).pids] }
}

function fail(code: string): never {
  throw Object.assign(new Error(code), { code })
}
