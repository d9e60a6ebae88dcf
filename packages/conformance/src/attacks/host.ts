import { execFileSync } from 'node:child_process'
import { globSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { readLayout } from '@gantry/sandbox/internal/process/cgroup-trees'

/** Traces of the sandboxes of this process on the host; the same before and after, when nothing is left behind. */
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
    // The stock of pipes for containers to come is of no sandbox.
    folders: globSync(join(tmpdir(), `gantry-sandboxes-*/run-${process.pid}-*/!(pipes|runsc)`)).sort(),
    groups: trees.flatMap(({ folder }) => globSync(join(folder, `gantry-${process.pid}-*/*/`))).sort(),
    // Engines, nodes and machines of other tests mount and unmount beside this process, which only its folders belong to.
    mounts: readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(`/run-${process.pid}-`)).length,
  }
}

/** The containers of this process in the engines of the tests, in whatever state; none where there is no engine. */
export async function containersOfSandboxes(): Promise<readonly string[]> {
  return [...(await containersInDocker()), ...containersInContainerd()]
}

function containersInContainerd(): readonly string[] {
  const { GANTRY_TEST_CONTAINERD: socket, GANTRY_TEST_CONTAINERD_NAMESPACE: namespace } = process.env
  if (socket === undefined || namespace === undefined) return []
  const filter = `labels."dev.gantry.owner"~=^${process.pid}-`
  const line = ['--address', socket, '--namespace', namespace, 'containers', 'list', '--quiet', filter]
  return execFileSync('ctr', line, { encoding: 'utf8' }).split('\n').filter(Boolean)
}

async function containersInDocker(): Promise<readonly string[]> {
  const socketPath = process.env.GANTRY_TEST_DOCKER
  if (socketPath === undefined) return []
  const filters = encodeURIComponent(JSON.stringify({ label: ['dev.gantry.owner'] }))
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  request({ socketPath, path: `/containers/json?all=1&filters=${filters}` }, resolve)
    .on('error', reject)
    .end()
  const found = (await json(await promise)) as readonly {
    readonly Id: string
    readonly Labels: { readonly [name: string]: string }
  }[]
  return found.filter(({ Labels }) => Labels['dev.gantry.owner']?.startsWith(`${process.pid}-`)).map(({ Id }) => Id)
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

/** The state of a process as the character in /proc; undefined when there is none. */
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
