/**
 * Stands in for the jailer of Firecracker: it takes its arguments, makes its folders, changes the user and executes. It does
 * not change the root folder, because the stand-in for Firecracker is a program of Node; paths are resolved there instead.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { execve } from 'node:process'
import { parseArgs } from 'node:util'

const version = 'v1.10.1'
const text = { type: 'string' } as const

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    version: { type: 'boolean' },
    id: text,
    'exec-file': text,
    uid: text,
    gid: text,
    'chroot-base-dir': text,
    'resource-limit': { type: 'string', multiple: true },
  },
})

if (values.version === true) {
  process.stdout.write(`Jailer ${version}\n`)
  process.exit(0)
}
const { id = '', 'exec-file': named = '', 'chroot-base-dir': base = '/srv/jailer' } = values
if (!/^[a-zA-Z0-9-]{1,64}$/.test(id)) throw new Error('Invalid instance ID')
const program = realpathSync(named)
const name = basename(program)
if (!name.includes('firecracker')) throw new Error('The exec file name must have the text firecracker in it.')
const [uid, gid] = [idOf(values.uid), idOf(values.gid)]
for (const limit of values['resource-limit'] ?? []) {
  if (!/^(?:fsize|no-file)=\d+$/.test(limit)) throw new Error(`Invalid resource limit: ${limit}`)
}
if (process.getuid?.() !== 0) throw new Error('Operation not permitted')
const root = join(realpathSync(base), name, id, 'root')
mkdirSync(root, { recursive: true })
if (existsSync(join(root, name))) throw new Error('The jail is in use.')
copyFileSync(program, join(root, name))
for (const folder of ['', 'dev', 'dev/net', 'run']) {
  const path = join(root, folder)
  mkdirSync(path, { recursive: true })
  chmodSync(path, 0o700)
  chownSync(path, uid, gid)
}
// Without another root folder the user has to pass the folder above the program's, which bubblewrap made for root.
chmodSync(dirname(dirname(program)), 0o755)
// The sandbox of the stand-in mounts a /proc of its own, which the kernel allows only where nothing covers a part of this one.
const mounts = readFileSync('/proc/self/mountinfo', 'utf8').matchAll(/^\S+ \S+ \S+ \S+ (\/proc\/\S+)/gm)
for (const [, path = ''] of [...mounts].reverse()) execFileSync('/usr/bin/umount', [path])
process.chdir(root)
process.setgroups?.([])
process.setgid?.(gid)
process.setuid?.(uid)
execve?.(program, [program, '--id', id, ...positionals], {})

function idOf(given: string | undefined): number {
  const number = Number(given)
  if (given === undefined || !Number.isInteger(number) || number < 0) throw new Error('Invalid user or group')
  return number
}
