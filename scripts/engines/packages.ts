import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { delimiter } from 'node:path'

/** A program that tests use, the Debian package that brings it, and what it is for. */
export interface Program {
  readonly name: string
  readonly package: string
  readonly use: string
}

/** Shells whose completion scripts are tested by running them. */
export const shells = ['bash', 'zsh', 'fish']

/** Programs from Debian, each installed when it is missing and we are root. */
export const programs: readonly Program[] = [
  ...shells.map((name) => ({ name, package: name, use: 'completion' })),
  { name: 'bwrap', package: 'bubblewrap', use: 'sandboxes' },
  { name: '/usr/bin/python3', package: 'python3', use: 'sandboxes' },
  { name: 'postgres', package: 'postgresql', use: 'the service' },
  { name: 'redis-server', package: 'redis-server', use: 'the service' },
  { name: 'promtool', package: 'prometheus', use: 'metrics' },
]

/** PATH, and where Debian keeps programs of which several versions can be installed; the newest is found first. */
export function searchPath(): string {
  const versioned = globSync('/usr/lib/postgresql/*/bin').sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  return [...versioned, process.env.PATH ?? ''].join(delimiter)
}

export function hasProgram(name: string): boolean {
  const env = { ...process.env, PATH: searchPath() }
  return spawnSync(name, ['--version'], { stdio: 'ignore', env }).status === 0
}

/** Installs what is missing, on Debian as root; elsewhere the table of engines says that it is missing. */
export function installPrograms(): void {
  installPackages(...programs.filter(({ name }) => !hasProgram(name)).map((program) => program.package))
}

/** Packages that only some need, such as the bench, are installed by those. */
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
