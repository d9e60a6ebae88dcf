import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { delimiter } from 'node:path'

/** A program that tests use, its Debian package, and its purpose. */
export interface Program {
  readonly name: string
  readonly package: string
  readonly use: string
}

/** Shells whose completion scripts are tested by running them. */
export const shells = ['bash', 'zsh', 'fish']

/** Programs from Debian; each missing one is installed if the process is root. */
export const programs: readonly Program[] = [
  ...shells.map((name) => ({ name, package: name, use: 'completion' })),
  { name: 'bwrap', package: 'bubblewrap', use: 'sandboxes' },
  { name: '/usr/bin/python3', package: 'python3', use: 'sandboxes' },
  { name: '/usr/bin/pip3', package: 'python3-pip', use: 'packages of sandboxes' },
  { name: 'postgres', package: 'postgresql', use: 'the service' },
  { name: 'redis-server', package: 'redis-server', use: 'the service' },
  { name: 'promtool', package: 'prometheus', use: 'metrics' },
]

/** PATH, and the folders in which Debian installs several versions of a program; the newest first. */
export function searchPath(): string {
  const versioned = globSync('/usr/lib/postgresql/*/bin').sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  return [...versioned, process.env.PATH ?? ''].join(delimiter)
}

export function hasProgram(name: string): boolean {
  const env = { ...process.env, PATH: searchPath() }
  return spawnSync(name, ['--version'], { stdio: 'ignore', env }).status === 0
}

/** Installs missing packages, on Debian as root; elsewhere the table of engines lists them as missing. */
export function installPrograms(): void {
  installPackages(...programs.filter(({ name }) => !hasProgram(name)).map((program) => program.package))
}

/** Installs packages that only some scripts need, such as the bench. */
export function installPackages(...wanted: readonly string[]): void {
  if (wanted.length === 0 || process.getuid?.() !== 0 || !hasProgram('apt-get')) return
  console.error(`gantry: installing ${wanted.join(', ')} (apt-get) …`)
  const apt = (...args: readonly string[]) =>
    spawnSync('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=120', ...args], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    })
  if (apt('install', '-y', '--no-install-recommends', ...wanted).status === 0) return
  apt('update')
  apt('install', '-y', '--no-install-recommends', ...wanted)
}
