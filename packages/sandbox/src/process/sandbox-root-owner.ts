import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { isAbsent } from '@gantry/core/internal/files/private-file'

/** Whether the process that something is named after still runs; `unknown` when it belongs to another pid namespace. */
export type OwnerState = 'alive' | 'dead' | 'unknown'

const form = /^(\d{1,10})-(\d{1,20})-([0-9a-f]{6})-([0-9a-z]{1,13})-[0-9a-f]{4}$/

/**
 * A name for what this process leaves on the machine: its pid, start time, boot and pid namespace, and a random part,
 * because one process may have several. A pid alone is given again, also after a restart of the machine, and means
 * another process in another container.
 */
export function ownName(): string {
  return `${process.pid}-${startOf('self')}-${boot()}-${pidNamespace()}-${randomBytes(2).toString('hex')}`
}

/** Tells the living from the dead; undefined for a text that is no name of a process. */
export function stateOf(name: string): OwnerState | undefined {
  const [, pid = '', start, thatBoot, namespace] = form.exec(name) ?? []
  if (pid === '') return undefined
  if (thatBoot !== boot()) return 'dead'
  if (namespace !== pidNamespace()) return 'unknown'
  return startOf(pid) === start ? 'alive' : 'dead'
}

/** When a process started, in ticks since the machine did; undefined when there is none. A zombie counts as gone. */
function startOf(pid: string): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name of the program stands in brackets and may hold anything, brackets and spaces too.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch (error) {
    if (isAbsent(error) || (error as NodeJS.ErrnoException).code === 'ESRCH') return undefined
    throw error
  }
}

function boot(): string {
  return createHash('sha256').update(readFileSync('/proc/sys/kernel/random/boot_id')).digest('hex').slice(0, 6)
}

function pidNamespace(): string {
  const inode = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0'
  return BigInt(inode).toString(36)
}
