import { execFile } from 'node:child_process'
import { readFile, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ToolError } from '@gantry/contract'
import { unreachable } from './file-access.ts'

/** A usable bubblewrap. */
export interface Bubblewrap {
  readonly path: string
  readonly version: string
}

export interface BubblewrapOptions {
  /** Path of bubblewrap; searched on the PATH and in the usual folders when absent. */
  readonly path?: string
  /** The uid to run it as when this process is root; run as root it would be no sandbox. */
  readonly uid?: number
  readonly signal: AbortSignal
}

const run = promisify(execFile)
const usualFolders = ['/usr/bin', '/usr/local/bin', '/bin']
/** Version 0.8 has `--disable-userns`; `--size` and `--as-pid-1` are older. */
const oldest = [0, 8] as const
const waitMs = 10_000
const install =
  'Install bubblewrap 0.8 or newer: `apt-get install bubblewrap`, `dnf install bubblewrap` or `apk add bubblewrap`.'

/** Finds and tests bubblewrap; rejects with RUNTIME_UNAVAILABLE, the reason and a remedy. */
export async function findBubblewrap(options: BubblewrapOptions): Promise<Bubblewrap> {
  const path = await find(options)
  if (path === undefined) throw unavailable('Bubblewrap is not installed.', install)
  await checkFile(path, options)
  const version = await versionOf(path, options.signal)
  await tryOut(path, options)
  return { path, version }
}

async function find({ path }: BubblewrapOptions): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(':').filter((folder) => folder.startsWith('/')), ...usualFolders]
  const candidates = path === undefined ? folders.map((folder) => join(folder, 'bwrap')) : [path]
  for (const candidate of candidates) {
    const real = await realpath(candidate).catch(() => undefined)
    if (real !== undefined && (await stat(real)).isFile()) return real
  }
  return undefined
}

async function checkFile(path: string, { uid }: BubblewrapOptions): Promise<void> {
  const { mode } = await stat(path)
  if ((mode & 0o6000) !== 0) {
    throw unavailable(
      `${path} is setuid: it would hold more rights than the sandbox it makes.`,
      `Turn that off (\`chmod u-s ${path}\`) and allow unprivileged user namespaces in the kernel.`,
    )
  }
  const closed = uid === undefined ? undefined : await unreachable(path, 'execute')
  if (closed !== undefined) {
    throw unavailable(`${path} cannot be executed by sandboxes, because other users cannot access ${closed}.`, install)
  }
}

async function versionOf(path: string, signal: AbortSignal): Promise<string> {
  const { stdout } = await run(path, ['--version'], { env: {}, timeout: waitMs, signal }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw unavailable(`${path} does not run.`, install, error)
  })
  const [version = '', major, minor] = /(\d+)\.(\d+)(?:\.\d+)?/.exec(stdout) ?? []
  if (version === '') throw unavailable(`${path} does not report its version.`, install)
  if (Number(major) === oldest[0] && Number(minor) < oldest[1]) {
    throw unavailable(`${path} is version ${version}, and 0.8 is needed.`, install)
  }
  return version
}

/** Creates the namespaces once, because no kernel setting reliably tells whether they can be created. */
async function tryOut(path: string, { uid, signal }: BubblewrapOptions): Promise<void> {
  const args = ['--unshare-all', '--unshare-user', '--disable-userns', '--as-pid-1', '--ro-bind', '/', '/']
  const who = uid === undefined ? {} : { uid, gid: uid }
  try {
    await run(path, [...args, '--proc', '/proc', '/bin/true'], { ...who, env: {}, cwd: '/', timeout: waitMs, signal })
  } catch (error) {
    signal.throwIfAborted()
    const { stderr } = error as { readonly stderr?: string }
    throw await explain(String(stderr ?? ''), error)
  }
}

/** Kernel settings that prevent unprivileged users from creating namespaces, with their remedies. */
const settings = [
  { file: '/proc/sys/user/max_user_namespaces', bad: '0', remedy: 'sysctl -w user.max_user_namespaces=16384' },
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    bad: '0',
    remedy: 'sysctl -w kernel.unprivileged_userns_clone=1',
  },
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    bad: '1',
    remedy:
      'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with `userns,`',
  },
]

/** Explains why bubblewrap failed, from its stderr and the kernel settings. */
export async function explain(stderr: string, cause?: unknown, setting = readSetting): Promise<ToolError> {
  const said = stderr.trim().split('\n').at(-1)?.slice(0, 300) ?? ''
  for (const { file, bad, remedy } of settings) {
    if ((await setting(file)) !== bad) continue
    return unavailable(
      'User namespaces are off for ordinary users of this machine.',
      `Turn them on: \`${remedy}\`.`,
      cause,
    )
  }
  if (/mount proc/i.test(said)) {
    const remedy = 'Inside a container, start it with an unmasked /proc (`--security-opt systempaths=unconfined`).'
    return unavailable('A new /proc cannot be mounted here, because parts of the one there are covered.', remedy, cause)
  }
  if (/namespace|unshare|clone|uid map|permitted/i.test(said)) {
    const remedy =
      'Inside a container, allow them: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined` with Docker.'
    return unavailable('The kernel refuses to create user namespaces.', remedy, cause)
  }
  return unavailable(said === '' ? 'Bubblewrap failed.' : `Bubblewrap failed: ${said}`, 'Run `gantry doctor`.', cause)
}

async function readSetting(file: string): Promise<string> {
  const text = await readFile(file, 'latin1').catch(() => '')
  return text.trim()
}

/** An unavailable runtime: reason and remedy in the details, and both in the message. */
export function unavailable(reason: string, remedy: string, cause?: unknown): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, {
    details: { reason, remedy },
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The parameters of one sandbox. */
interface BubblewrapArguments {
  /** The path of bubblewrap. */
  readonly program: string
  /** From `prepareRootFileSystem`. */
  readonly system: readonly string[]
  readonly diskBytes: number
  /** A folder of the host with the socket of the egress proxy. */
  readonly egressFolder?: string
}

/** Descriptor of the compiled filter, which the launcher opens. */
const seccompDescriptor = 9

/**
 * The complete command: all namespaces new, no user namespaces inside, its own session, one writable folder of limited
 * size, and the init as process 1.
 */
export function bubblewrapArguments(options: BubblewrapArguments): [string, ...string[]] {
  const { program, system, diskBytes, egressFolder } = options
  return [
    program,
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--die-with-parent', '--as-pid-1'],
    ...[
      '--clearenv',
      '--uid',
      '1000',
      '--gid',
      '1000',
      '--hostname',
      'sandbox',
      '--seccomp',
      String(seccompDescriptor),
    ],
    ...system,
    ...(egressFolder === undefined ? [] : ['--ro-bind', egressFolder, '/gantry/egress']),
    ...['--size', String(Math.floor(diskBytes)), '--perms', '0700', '--tmpfs', '/work'],
    ...['/work/.gantry', '/work/.gantry/tmp', '/work/.gantry/code', '/work/.gantry/shm'].flatMap(privateFolder),
    ...['--chdir', '/work', '/gantry/init', 'init'],
  ]
}

function privateFolder(path: string): string[] {
  return ['--perms', '0700', '--dir', path]
}
