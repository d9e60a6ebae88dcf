import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { lstat, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { insidePaths } from './qemu-arguments.ts'

/** QEMU on this machine, and how it is confined. */
export interface Hypervisor {
  readonly program: string
  readonly version: string
  /** The clock of the processor. */
  readonly processorMhz: number
}

const run = promisify(execFile)
const versionMs = 30_000
/** `microvm` machines with ACPI, without which its devices are not found. */
const oldest = [6, 0] as const
const install = 'Install QEMU 6.0 or newer: `apt-get install qemu-system-x86`, or name it in `runtimes.qemu.program`.'

/** Finds QEMU; rejects with RUNTIME_UNAVAILABLE, the reason and a remedy. */
export async function findHypervisor(program: string | undefined, signal: AbortSignal): Promise<Hypervisor> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw unavailable('Virtual machines of QEMU need Linux on an x64 processor here.', 'Use another runtime.')
  }
  const folders = (process.env.PATH ?? '').split(':').filter((folder) => folder.startsWith('/'))
  const candidates =
    program === undefined
      ? [...folders, '/usr/bin', '/usr/local/bin'].map((folder) => join(folder, 'qemu-system-x86_64'))
      : [program]
  const path = await firstFile(candidates)
  if (path === undefined) throw unavailable('QEMU is not installed.', install)
  const { stdout } = await run(path, ['--version'], { timeout: versionMs, signal }).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw unavailable(`${path} does not run.`, install, cause)
  })
  const [version = '', major = '0', minor = '0'] = /(\d+)\.(\d+)(?:\.\d+)?/.exec(stdout) ?? []
  const isOld = Number(major) < oldest[0] || (Number(major) === oldest[0] && Number(minor) < oldest[1])
  if (isOld) throw unavailable(`${path} is version ${version || 'unknown'}.`, install)
  return { program: path, version, processorMhz: processorMhz() }
}

/** The first of the paths that leads to a file. */
export async function firstFile(candidates: readonly string[]): Promise<string | undefined> {
  for (const candidate of candidates) {
    const path = await realpath(candidate).catch(() => undefined)
    if (path !== undefined && statSync(path).isFile()) return path
  }
  return undefined
}

function processorMhz(): number {
  const found = /^cpu MHz\s*:\s*([\d.]+)/m.exec(readFileSync('/proc/cpuinfo', 'latin1'))?.[1]
  return Math.max(100, Math.round(Number(found ?? 2_000)))
}

/**
 * Bubblewrap's arguments around QEMU: the programs of the host and one image, both read-only, and no network, home or run
 * folder. QEMU finds its inherited descriptors in its own /proc.
 */
export async function confinement(
  bubblewrap: string,
  program: string,
  imageFolder: string,
): Promise<[string, ...string[]]> {
  return [
    bubblewrap,
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--die-with-parent', '--as-pid-1'],
    ...['--clearenv', '--hostname', 'machine'],
    ...(await systemBinds()),
    ...['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp'],
    ...(program.startsWith('/usr/') ? [] : ['--ro-bind', program, program]),
    ...['--ro-bind', imageFolder, insidePaths.image],
  ]
}

/** Bubblewrap's arguments for the programs of this machine, read-only. */
export async function systemBinds(): Promise<string[]> {
  const links: string[] = []
  for (const name of ['bin', 'sbin', 'lib', 'lib32', 'lib64']) {
    const path = `/${name}`
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink() === true) links.push('--symlink', await readlink(path), path)
    else if (stats?.isDirectory() === true) links.push('--ro-bind', path, path)
  }
  return ['--ro-bind', '/usr', '/usr', ...links, '--ro-bind-try', '/etc/ld.so.cache', '/etc/ld.so.cache']
}
