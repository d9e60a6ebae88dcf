import { execFile } from 'node:child_process'
import { open, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { makeFolder } from './root-file-system-reach.ts'
import type { SandboxRoot } from './sandbox-root.ts'

/** The devices that programs expect, and that lead nowhere, with their numbers. */
const nodes: { readonly [name: string]: readonly [major: string, minor: string] } = {
  null: ['1', '3'],
  zero: ['1', '5'],
  full: ['1', '7'],
  random: ['1', '8'],
  urandom: ['1', '9'],
}
const links: { readonly [name: string]: string } = {
  fd: '/proc/self/fd',
  stdin: '/proc/self/fd/0',
  stdout: '/proc/self/fd/1',
  stderr: '/proc/self/fd/2',
  shm: '/work/.gantry/shm',
}
const run = promisify(execFile)

/**
 * A /dev made by us, for one mount instead of seven. It belongs to root, so that nobody inside writes to it; made
 * read-only by bubblewrap, it would lose its devices. Undefined where devices cannot be made or used: only root may make
 * them, and not on a file system that has none.
 */
export async function ownDevices({ run: own, privileged }: SandboxRoot): Promise<string[] | undefined> {
  if (!privileged) return undefined
  const folder = join(own, 'dev')
  try {
    await makeFolder(folder, 0o755)
    // The names and numbers are ours; one shell for all of them, because each program takes 10 ms to start.
    const lines = Object.entries(nodes).map(([name, [major, minor]]) => `mknod -m 666 ${name} c ${major} ${minor}`)
    await run('/bin/sh', ['-ec', lines.join('\n')], { cwd: folder, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } })
    for (const name of Object.keys(nodes)) await (await open(join(folder, name), 'r+')).close()
    for (const [name, target] of Object.entries(links)) await symlink(target, join(folder, name))
    return ['--dev-bind', folder, '/dev']
  } catch {
    return undefined
  }
}

/** The host's devices, each bound into a /dev that is otherwise empty. */
export function hostDevices(): string[] {
  return [
    ...['--size', '65536', '--perms', '0755', '--tmpfs', '/dev'],
    ...Object.keys(nodes).flatMap((name) => ['--dev-bind', `/dev/${name}`, `/dev/${name}`]),
    ...Object.entries(links).flatMap(([name, target]) => ['--symlink', target, `/dev/${name}`]),
    ...['--remount-ro', '/dev'],
  ]
}
