import { execFile } from 'node:child_process'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { firstFile, systemBinds } from './hypervisor.ts'

/** Firecracker on this machine, with the jailer of the same release. */
export interface Firecracker {
  readonly program: string
  readonly jailer: string
  readonly version: string
}

const run = promisify(execFile)
const versionMs = 30_000
/** From this one on a guest finds its devices by ACPI, as the kernel of the image does. */
const oldest = [1, 8] as const
const install =
  'Unpack a release of Firecracker 1.8 or newer into a folder of its own, and name its programs in `runtimes.firecracker.program` and `runtimes.firecracker.jailer`.'

/** Finds Firecracker and its jailer; rejects with RUNTIME_UNAVAILABLE, the reason and a remedy. */
export async function findFirecracker(
  options: { readonly program?: string; readonly jailer?: string },
  signal: AbortSignal,
): Promise<Firecracker> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw unavailable('Virtual machines of Firecracker need Linux on an x64 processor here.', 'Use another runtime.')
  }
  if (process.getuid?.() !== 0) {
    throw unavailable(
      'The jailer of Firecracker makes devices and changes the user, which only root may.',
      'Run Gantry as root, or use `runtimes.qemu`, which needs no privilege.',
    )
  }
  const program = await find('firecracker', options.program)
  const jailer = await find('jailer', options.jailer)
  if (!basename(program).includes('firecracker')) {
    throw unavailable(`The jailer starts no program with the name ${basename(program)}.`, install)
  }
  const [version, jailed] = await Promise.all([versionOf(program, signal), versionOf(jailer, signal)])
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
    throw unavailable(`${program} is version ${version}.`, install)
  }
  if (jailed !== version) {
    throw unavailable(`${jailer} is version ${jailed}, and ${program} is version ${version}.`, install)
  }
  return { program, jailer, version }
}

async function find(name: string, configured: string | undefined): Promise<string> {
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => folder.startsWith('/'))
  const usual = [...folders, '/usr/bin', '/usr/local/bin'].map((folder) => join(folder, name))
  const path = await firstFile(configured === undefined ? usual : [configured])
  if (path === undefined) throw unavailable(`${configured ?? name} is not installed.`, install)
  if (dirname(path) === '/') throw unavailable(`${path} is in no folder of its own.`, install)
  return path
}

async function versionOf(path: string, signal: AbortSignal): Promise<string> {
  const { stdout } = await run(path, ['--version'], { timeout: versionMs, signal }).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw unavailable(`${path} does not run.`, install, cause)
  })
  const found = /v(\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  if (found === undefined) throw unavailable(`${path} tells no version.`, install)
  return found
}

/** Where things are in a jail, which Firecracker sees as its root. */
export const jailPaths = { api: '/api.sock', vsock: '/v.sock', image: '/image', snapshot: '/snapshot' } as const
/** The name of every machine in its own folder. */
const jailId = 'machine'
/** The folder of one machine in the namespaces that the jailer starts in. */
const baseInside = '/jail'
/** What the jailer does before it becomes the user of the machine: mounts, devices, owners, user. */
const capabilities = ['SYS_ADMIN', 'SYS_CHROOT', 'MKNOD', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETUID', 'SETGID']
/** Of Firecracker, which keeps its disk, its sockets and KVM open. */
const openFiles = 1_024

/** The root folder of a jail in the folder of one machine. */
export function jailRoot(program: string, base: string): string {
  return join(base, basename(program), jailId, 'root')
}

export interface Jail {
  readonly bubblewrap: string
  readonly firecracker: Firecracker
  /** The folder of one machine. */
  readonly base: string
  readonly imageFolder: string
  /** A folder that the machine writes its snapshot to, or begins from. */
  readonly snapshot?: { readonly folder: string; readonly writable: boolean }
  readonly uid: number
}

/**
 * The command that starts one Firecracker. The jailer gives it a root folder and a user; the namespaces are bubblewrap's,
 * because the jailer would leave it in the network of the host. The image is bound into the root folder instead of linked,
 * because the store may be on another file system, and a bind is read-only whichever user the files have. Control groups are
 * those of the native supervisor, which the jailer inherits.
 */
export async function jailCommand(jail: Jail): Promise<[string, ...string[]]> {
  const { bubblewrap, firecracker, base, imageFolder, snapshot, uid } = jail
  const { program, jailer } = firecracker
  const root = jailRoot(program, baseInside)
  const folders = new Set([program, jailer].map((path) => dirname(path)).filter((path) => !path.startsWith('/usr/')))
  const bind = snapshot?.writable === true ? '--bind' : '--ro-bind'
  return [
    bubblewrap,
    ...['--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--new-session', '--die-with-parent'],
    ...['--clearenv', '--hostname', 'machine', '--cap-drop', 'ALL'],
    ...capabilities.flatMap((name) => ['--cap-add', `CAP_${name}`]),
    ...(await systemBinds()),
    ...['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp'],
    ...[...folders].flatMap((path) => ['--ro-bind', path, path]),
    ...['--dev-bind', base, baseInside],
    ...['--ro-bind', imageFolder, `${root}${jailPaths.image}`],
    ...(snapshot === undefined ? [] : [bind, snapshot.folder, `${root}${jailPaths.snapshot}`]),
    ...['--chdir', '/'],
    ...[jailer, '--id', jailId, '--exec-file', program, '--uid', String(uid), '--gid', String(uid)],
    ...['--chroot-base-dir', baseInside, '--resource-limit', `no-file=${openFiles}`],
    ...['--', '--api-sock', jailPaths.api],
  ]
}
