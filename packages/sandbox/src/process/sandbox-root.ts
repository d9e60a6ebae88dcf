import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { chmod, lstat, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { ToolError } from '@gantry/contract'
import { codeOf, isAbsent } from '@gantry/core/internal/files/private-file'
import { makeFolder, unreachable } from './file-access.ts'

/** The host folder for sandbox files, and in it the folder of this process. */
export interface SandboxRoot {
  readonly folder: string
  /** The folder of this process: removed by `close`, or by the janitor of a later process. */
  readonly run: string
  /** Owner name of `run`; see `ownName`. */
  readonly owner: string
  /** Whether sandboxes have their own uids, which must be able to traverse both folders. */
  readonly privileged: boolean
  close(): Promise<void>
}

const mayListNothing = 0o711
const ownerOnly = 0o700
const writableByOthers = 0o022
const sticky = 0o1000
/** The uid that a container shows for unmapped users. */
const unmappedUid = 65_534

/**
 * Opens the folder and creates it when absent. When sandbox uids cannot traverse a parent folder, the default folder under
 * the system's temporary folder is used instead. Rejects with RUNTIME_UNAVAILABLE where another user could change its
 * content, because a sandbox executes programs from there.
 */
export async function openSandboxRoot(options: { readonly folder?: string } = {}): Promise<SandboxRoot> {
  const uid = process.getuid?.() ?? -1
  const privileged = uid === 0
  const mode = privileged ? mayListNothing : ownerOnly
  const usual = join(tmpdir(), `gantry-sandboxes-${uid}`)
  const folder = resolve(options.folder ?? usual)
  await makeFolder(folder, mode).catch((error: unknown) => {
    throw unusable(folder, 'cannot be made', error)
  })
  await check(folder, uid)
  await checkAbove(folder, uid)
  if (privileged) {
    await chmod(folder, mode).catch((error: unknown) => {
      throw unusable(folder, 'cannot be changed', error)
    })
    // Modes of parent folders are not ours to change, so the default folder is used when sandboxes cannot traverse them.
    const closed = await unreachable(folder, 'pass')
    if (closed !== undefined && folder !== usual) return openSandboxRoot()
    if (closed !== undefined)
      throw unusable(folder, `cannot be traversed by sandboxes: other users cannot access ${closed}`)
  }
  const owner = ownName()
  const run = join(folder, `run-${owner}`)
  await makeFolder(run, mode).catch((error: unknown) => {
    throw unusable(folder, 'cannot be written', error)
  })
  return { folder, run, owner, privileged, close: () => rm(run, { recursive: true, force: true }) }
}

async function check(folder: string, uid: number): Promise<void> {
  const stats = await lstat(folder)
  if (stats.isSymbolicLink()) throw unusable(folder, 'is a symbolic link')
  if (stats.uid !== uid) throw unusable(folder, `belongs to uid ${stats.uid} instead of ${uid}`)
  if ((stats.mode & writableByOthers) !== 0) throw unusable(folder, 'can be written by others')
}

/** A user who can rename a parent folder can replace this one; a sticky parent, like /tmp, prevents that. */
async function checkAbove(folder: string, uid: number): Promise<void> {
  for (let at = dirname(await realpath(folder)); ; at = dirname(at)) {
    const stats = await lstat(at)
    const held = (stats.mode & writableByOthers) === 0 || (stats.mode & sticky) !== 0
    if (!held) throw unusable(folder, `is in ${at}, which can be written by others`)
    if (![0, uid, unmappedUid].includes(stats.uid))
      throw unusable(folder, `is in ${at}, which belongs to uid ${stats.uid}`)
    if (at === '/') return
  }
}

function unusable(folder: string, why: string, cause?: unknown): ToolError {
  const remedy = 'Set SANDBOX_ROOT to a folder that only you can write and every user can traverse.'
  const reason = `The folder for sandboxes, ${folder}, ${why}.`
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, {
    details: { reason, remedy },
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Whether the process of an owner name is running; `unknown` when it belongs to another pid namespace or machine. */
type OwnerState = 'alive' | 'dead' | 'unknown'

const form = /^(\d{1,10})-(\d{1,20})-([0-9a-f]{6})-([0-9a-z]{1,13})-[0-9a-f]{4}$/

/**
 * A name for what this process leaves on the machine: its pid, start time, boot, pid namespace, and a random part,
 * because one process may have several. A pid alone is reused, also after a reboot, and means another process in another
 * container.
 */
export function ownName(): string {
  return `${process.pid}-${startOf('self')}-${boot()}-${pidNamespace()}-${randomBytes(2).toString('hex')}`
}

/**
 * Whether the process of an owner name is alive; undefined for a text that is no owner name. An owner of another boot is
 * dead only where it was certainly on this machine: `isHere` is false for what an engine lists that may be on another one.
 */
export function stateOf(name: string, { isHere = true }: { readonly isHere?: boolean } = {}): OwnerState | undefined {
  const [, pid = '', start, thatBoot, namespace] = form.exec(name) ?? []
  if (pid === '') return undefined
  if (thatBoot !== boot()) return isHere ? 'dead' : 'unknown'
  if (namespace !== pidNamespace()) return 'unknown'
  return startOf(pid) === start ? 'alive' : 'dead'
}

/** Start time of a process in ticks since boot; undefined when it does not exist. A zombie counts as dead. */
function startOf(pid: string): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The program name is in parentheses and may contain any character, also parentheses and spaces.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch (error) {
    if (isAbsent(error) || codeOf(error) === 'ESRCH') return undefined
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
