import { spawnSync } from 'node:child_process'

/** Shells whose completion scripts are tested by running them. */
export const shells = ['bash', 'zsh', 'fish']

export function hasProgram(name: string): boolean {
  return spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0
}

/** Installs the shells that are missing, on Debian as root; elsewhere the table of engines says that they are missing. */
export function installShells(): void {
  const wanted = shells.filter((name) => !hasProgram(name))
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
