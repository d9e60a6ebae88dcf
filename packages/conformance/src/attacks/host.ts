import { globSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readLayout } from '@gantry/sandbox/internal/process/cgroup-trees'
import { isSpare } from './spare.ts'

/** What the sandboxes of this process have on the host; the same before and after, when nothing is left behind. */
export interface Traces {
  readonly processes: readonly string[]
  readonly folders: readonly string[]
  readonly groups: readonly string[]
  readonly mounts: number
}

/** Each of the two runtimes of an attack may have one launcher wait, with no sandbox; a third would be left behind. */
const mostSpares = 2

/** Looks at what belongs to this process alone, because others use the machine too. */
export function tracesOfSandboxes(): Traces {
  const trees = readLayout(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'))
  const below = descendants()
  const spares = below.filter((one) => isSpare(one, below)).slice(0, mostSpares)
  return {
    processes: below.filter((one) => !spares.includes(one)).map(({ pid, command }) => `${pid} ${command[0]}`),
    folders: globSync(join(tmpdir(), `gantry-sandboxes-*/run-${process.pid}-*/*`)).sort(),
    groups: trees.flatMap(({ folder }) => globSync(join(folder, `gantry-${process.pid}-*/*/`))).sort(),
    mounts: readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length,
  }
}

export interface HostProcess {
  readonly pid: number
  readonly parent: number
  readonly command: readonly string[]
}

/** Every process that can be seen from here, with the words it was started with. */
export function hostProcesses(): HostProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0])
        return [{ pid: Number(name), parent, command: wordsOf(name) }]
      } catch {
        // It ended while we looked.
        return []
      }
    })
}

function wordsOf(pid: string): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(0, -1)
}

/** The state of a process as /proc names it by a letter; undefined when there is none. */
export function stateOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)
  } catch {
    return undefined
  }
}

function descendants(): HostProcess[] {
  const all = hostProcesses()
  const below = new Set([process.pid])
  for (let size = 0; size !== below.size; ) {
    size = below.size
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid)
  }
  below.delete(process.pid)
  return all.filter(({ pid }) => below.has(pid))
}
