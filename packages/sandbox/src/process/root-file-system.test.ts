import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { isRoot, real, start } from './bubblewrap.fixture.ts'
import { inside, limits, plannerFor, withoutFilter } from './planner.fixture.ts'
import type { Planner } from './planner.ts'

const base = mkdtempSync(join(tmpdir(), 'gantry-system-'))
chmodSync(base, 0o755)
/** Not in /tmp, which a sandbox has of its own. */
const extra = mkdtempSync('/var/tmp/gantry-extra-')
const spec = { limits, network: 'none', language: 'javascript' } as const
let count = 0
let planner: Planner

before(async () => {
  if (real.skip !== false) return
  const closed = join(base, 'closed')
  mkdirSync(closed)
  link(process.execPath, join(closed, 'node'))
  chmodSync(closed, 0o700)
  mkdirSync(join(base, 'drivers'))
  writeFileSync(join(base, 'drivers', 'a.txt'), 'a driver')
  chmodSync(extra, 0o755)
  writeFileSync(join(extra, 'data'), 'data')
  const readOnlyFolders = [extra]
  const options = { node: join(closed, 'node'), drivers: join(base, 'drivers'), readOnlyFolders }
  planner = await plannerFor(join(base, 'root'), options)
})
after(async () => {
  await planner?.close()
  rmSync(base, { recursive: true })
  rmSync(extra, { recursive: true })
})

function link(from: string, to: string): void {
  try {
    linkSync(realpathSync(from), to)
  } catch {
    copyFileSync(from, to)
    chmodSync(to, 0o755)
  }
}

/** What a program prints in a fresh sandbox. */
function run(...command: string[]): string {
  count += 1
  const planned = planner.plan(`s${count}`, spec)
  const { status, signal, stdout, stderr } = inside(planned, ...command)
  planned.release()
  assert.equal(status, 0, `${signal} ${stderr} ${stdout}`)
  return stdout
}

const python = (code: string, ...args: string[]): string => run('/usr/bin/python3', '-c', code, ...args)
const shell = (script: string): string => run('/bin/sh', '-c', script)

/** Which of these a program can open, outside by an ordinary user or inside. */
const opened = `
import json, sys
def can(path, mode):
    try:
        with open(path, mode): return True
    except OSError: return False
print(json.dumps([path for path in sys.argv[2:] if can(path, sys.argv[1])]))
`

test(
  'a program runs as uid 1000 in its own pid namespace, in an empty workspace, with an empty environment',
  real,
  () => {
    const facts = python(`
import os, json, socket
print(json.dumps([os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), socket.gethostname(), sorted(os.environ),
  sorted(os.listdir('/')), os.listdir('.'), [p for p in os.listdir('/proc') if p.isdigit()]]))
`)
    const [uid, gid, groups, folder, host, environment, root, here, processes] = JSON.parse(facts)
    assert.deepEqual([uid, gid, groups, folder, host], [1000, 1000, isRoot ? [] : groups, '/work', 'sandbox'])
    // Python itself sets LC_CTYPE where nothing tells the language.
    assert.deepEqual(
      environment.filter((name: string) => name !== 'LC_CTYPE'),
      ['PWD'],
    )
    for (const name of ['usr', 'etc', 'proc', 'dev', 'tmp', 'work', 'gantry']) assert.ok(root.includes(name), name)
    for (const name of ['sys', 'run', 'root', 'home', 'boot', 'mnt']) assert.ok(!root.includes(name), name)
    assert.deepEqual(here, ['.gantry'])
    assert.deepEqual(processes, ['1'])
  },
)

test('a program cannot read host files outside the system folders; an unprivileged host user can', real, () => {
  const canary = join(base, 'canary')
  writeFileSync(canary, 'secret')
  chmodSync(canary, 0o644)
  const paths = [canary, '/etc/hostname', '/etc/fstab', '/etc/ssh/ssh_config', '/proc/kallsyms', '/proc/cmdline']
  const outside = start({ argv: ['/usr/bin/python3', '-c', opened, 'r', ...paths] })
  assert.ok(JSON.parse(outside.stdout).includes(canary), 'it can be read outside')
  assert.deepEqual(JSON.parse(python(opened, 'r', ...paths, '/etc/shadow', '/proc/keys', '/proc/sysrq-trigger')), [])
  const names = readFileSync('/etc/passwd', 'utf8').match(/^[^:]+/gm) ?? []
  const found = shell('cat /etc/passwd /etc/group /etc/hosts')
  assert.ok(!found.includes(hostname()) || hostname() === 'localhost')
  assert.ok(names.filter((name) => !['root', 'nobody'].includes(name)).every((name) => !found.includes(`${name}:`)))
})

test('a program can write only to the workspace, /tmp, /dev/shm and /dev/null', real, () => {
  const refused = ['/file', '/usr/file', '/etc/file', '/dev/file', '/gantry/file', '/proc/file', '/gantry/init']
  const kernel = ['/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/self/oom_score_adj', '/proc/1/uid_map']
  const further = [join(extra, 'data'), join(extra, 'new')]
  const open = ['/work/file', '/tmp/file', '/dev/shm/file', '/dev/null']
  assert.deepEqual(JSON.parse(python(opened, 'a', ...refused, ...kernel, ...further, ...open)), open)
})

test('writing beyond the workspace size fails with ENOSPC', real, () => {
  const fill =
    'import sys\nwith open("a", "wb") as f:\n  for n in range(int(sys.argv[1])): f.write(bytes(4096)); f.flush()'
  python(fill, '250')
  assert.throws(() => python(fill, '300'), /No space left on device/)
})

test('/dev has only null, zero, full, random and urandom', real, () => {
  const listed = shell(
    'ls /dev; dd if=/dev/zero bs=4 count=1 2>/dev/null | od -An -tx1; head -c 1 /dev/urandom | wc -c',
  )
  const names = ['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']
  assert.deepEqual(listed.trim().split(/\s+/), [...names, '00', '00', '00', '00', '1'])
})

test('every mount is nosuid, and only the workspace and the devices are writable', real, () => {
  const mounts = shell('cat /proc/mounts')
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
  assert.ok(mounts.length > 5)
  for (const [, point, , options = ''] of mounts) assert.match(options, /\bnosuid\b/, point)
  const writable = mounts.filter(([, , , options = '']) => options.startsWith('rw')).map(([, point]) => point)
  // Root makes a /dev of its own, which only root can write; an ordinary user has the devices of the host bound.
  const devices = ['full', 'null', 'random', 'urandom', 'zero'].map((name) => `/dev/${name}`)
  assert.deepEqual(writable.sort(), isRoot ? ['/dev', '/work'] : [...devices, '/work'])
  assert.equal(shell('touch /dev/new /dev/null/x 2>/dev/null; ls /dev | wc -l'), '10\n')
})

test('a program cannot connect to a service on the host’s loopback; an unprivileged host user can', real, async (t) => {
  const server = createServer((socket) => socket.end('x')).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  const code = `import socket\ntry: socket.create_connection(('127.0.0.1', ${address.port}), 5); print('in')\nexcept OSError: print('out')`
  assert.equal(start({ argv: ['/usr/bin/python3', '-c', code] }).stdout, 'in\n')
  assert.equal(python(code), 'out\n')
})

test('a program cannot create a user namespace, with or without the seccomp filter; a user outside can', real, () => {
  const unshare = ['/usr/bin/unshare', '-U', 'true']
  const planned = planner.plan('namespaces', spec)
  assert.notEqual(inside(planned, ...unshare).status, 0)
  assert.equal(inside(withoutFilter(planned), '/bin/true').status, 0)
  assert.notEqual(inside(withoutFilter(planned), ...unshare).status, 0)
  planned.release()
  assert.equal(start({ argv: unshare }).status, 0)
})

test('Node and the drivers are available inside even when the host folder of Node is inaccessible', real, () => {
  const code = "console.log(6 * 7, fs.readFileSync('/gantry/drivers/a.txt', 'utf8'))"
  assert.equal(run('/gantry/node', '-e', code), '42 a driver\n')
  if (!isRoot) return
  const closed = start({ argv: [join(base, 'closed', 'node'), '-e', '1'] })
  assert.notEqual(closed.status, 0, 'the original is out of reach')
})

test('the host’s shell and Python run inside the sandbox', real, () => {
  assert.equal(shell('echo a | sed s/a/b/ && cat /work/../tmp/none 2>/dev/null || echo none'), 'b\nnone\n')
  assert.equal(
    python(
      'import ssl, sqlite3, ctypes, multiprocessing; print(ssl.create_default_context().cert_store_stats()["x509_ca"] >= 0)',
    ),
    'True\n',
  )
  assert.equal(
    python('import tempfile; f = tempfile.NamedTemporaryFile(); print(f.name.startswith("/tmp/"))'),
    'True\n',
  )
})

test('read-only folders appear under their own path', real, () => {
  assert.equal(shell(`cat ${join(extra, 'data')}`), 'data')
})

test('a configured rootfs replaces the host’s system folders', real, async () => {
  const rootfs = join(base, 'rootfs')
  const libraries = execFileSync('ldd', ['/bin/cat'], { encoding: 'utf8' }).match(/\/\S+/g) ?? []
  for (const path of ['/bin/cat', ...libraries]) {
    mkdirSync(join(rootfs, dirname(path)), { recursive: true })
    copyFileSync(path, join(rootfs, path))
  }
  mkdirSync(join(rootfs, 'etc'))
  mkdirSync(join(rootfs, 'proc'))
  writeFileSync(join(rootfs, 'etc', 'passwd'), 'its own')
  const other = await plannerFor(join(base, 'other'), { rootfs })
  try {
    const planned = other.plan('one', spec)
    assert.equal(inside(planned, '/bin/cat', '/etc/passwd').stdout, 'its own')
    assert.match(inside(planned, '/bin/cat', '/proc/self/status').stdout, /^Pid:\t1$/m)
    assert.notEqual(inside(planned, '/bin/cat', '/usr/bin/env').status, 0, 'nothing of the host')
  } finally {
    await other.close()
  }
})
