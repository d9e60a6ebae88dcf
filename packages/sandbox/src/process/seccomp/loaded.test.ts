import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { real, start } from '../bubblewrap.fixture.ts'
import { numbers, writeFilters } from './filters.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-loaded-'))
chmodSync(folder, 0o755)
after(() => rmSync(folder, { recursive: true }))

const known = numbers[process.arch === 'arm64' ? 'arm64' : 'x64']
const [EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, EAFNOSUPPORT] = [1, 22, 38, 93, 97]

/** Calls made for real, harmless where they work, and the error each must give under the filter. */
const tried: readonly (readonly [call: string | number, args: readonly number[], errno: number])[] = [
  ['io_uring_setup', [8, 0], EPERM],
  ['keyctl', [0, -3, 0], EPERM],
  ['add_key', [0, 0, 0, 0, 0], EPERM],
  ['request_key', [0, 0, 0, 0], EPERM],
  ['ptrace', [16, 999_999, 0, 0], EPERM],
  ['process_vm_readv', [1, 0, 0, 0, 0, 0], EPERM],
  ['pidfd_getfd', [-1, 0, 0], EPERM],
  ['userfaultfd', [1], EPERM],
  ['unshare', [0x1000_0000], EPERM],
  ['setns', [-1, 0], EPERM],
  ['clone3', [0, 0], ENOSYS],
  ['open_by_handle_at', [-1, 0, 0], EPERM],
  ['name_to_handle_at', [-100, 0, 0, 0, 0], EPERM],
  ['personality', [0x0004_0000], EPERM],
  ['memfd_secret', [0], EPERM],
  ['kcmp', [1, 1, 0, 0, 0], EPERM],
  ['seccomp', [2, 0, 0], EPERM],
  ['fsopen', [0, 0], EPERM],
  ['socket', [16, 3, 0], EAFNOSUPPORT],
  ['socket', [40, 1, 0], EAFNOSUPPORT],
  ['socket', [38, 5, 0], EAFNOSUPPORT],
  ['socket', [2, 1, 262], EPROTONOSUPPORT],
  ['prlimit64', [1, 7, 0, 0], EPERM],
  ['madvise', [0, 0, 12], EINVAL],
  ['sched_setattr', [0, 0, 0], EPERM],
  ['ioprio_set', [1, 0, 0x4000], EPERM],
  ['prctl', [22, 2, 0], EPERM],
  ['ioctl', [0, 0x5412, 0], EPERM],
  ['fanotify_init', [0, 0], ENOSYS],
  ['mq_unlink', [0], ENOSYS],
  ['io_setup', [0, 0], ENOSYS],
  ['statmount', [0, 0, 0, 0], ENOSYS],
]

/** Makes the calls by number and prints what each gave; a negative argument stands for itself in 64 bits. */
const trier = `
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
found = []
for number, args in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    gave = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(arg & 0xffffffffffffffff) for arg in args])
    found.append(ctypes.get_errno() if gave == -1 else 0)
print(json.dumps(found))
`

/** The old way into the kernel: getpid of a 32-bit program, made by a 64-bit one. */
const oldGate = `
import ctypes, mmap, os
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex('b814000000cd80c3'))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
child = os.fork()
if child == 0:
    os._exit(0 if call() == os.getpid() else 1)
_, status = os.waitpid(child, 0)
print('signal', os.WTERMSIG(status)) if os.WIFSIGNALED(status) else print('exit', os.WEXITSTATUS(status))
`

async function python(code: string, argument: string, filtered: 'base' | 'strict' | 'none'): Promise<string> {
  const filters = await made
  const seccomp = filtered === 'none' ? [] : ['--seccomp', '9']
  const { status, stdout, stderr } = start({
    argv: [
      '/usr/bin/bwrap',
      '--unshare-all',
      '--unshare-user',
      '--disable-userns',
      '--as-pid-1',
      ...seccomp,
      '--ro-bind',
      '/',
      '/',
      '--proc',
      '/proc',
      '--dev',
      '/dev',
      '/usr/bin/python3',
      '-I',
      '-c',
      code,
      argument,
    ],
    seccompFile: filtered === 'none' ? undefined : filters[filtered].file,
  })
  assert.equal(status, 0, stderr)
  return stdout.trim()
}

const made = writeFilters(folder)

test(
  'a loaded filter refuses each syscall with the listed error, and most of them return another result without the filter',
  real,
  async (t) => {
    const calls = tried.map(([call, args]) => [typeof call === 'number' ? call : known.get(call), args])
    const open: number[] = JSON.parse(await python(trier, JSON.stringify(calls), 'none'))
    const held: number[] = JSON.parse(await python(trier, JSON.stringify(calls), 'base'))
    const wrong = tried.filter(([, , errno], index) => held[index] !== errno)
    assert.deepEqual(wrong, [])
    const distinct = tried.filter(([, , errno], index) => open[index] !== errno)
    t.diagnostic(`${distinct.length} of ${tried.length} calls behave otherwise without the filter`)
    assert.ok(distinct.length >= 20, 'a kernel that refuses these itself cannot show that the filter does')
  },
)

test('unassigned and x32 syscall numbers return ENOSYS', real, async () => {
  const calls = [600, 1_000, 0x4000_0000 + 39].map((number) => [number, []])
  assert.deepEqual(JSON.parse(await python(trier, JSON.stringify(calls), 'base')), [ENOSYS, ENOSYS, ENOSYS])
})

test('the filter kills a 64-bit program that uses the 32-bit ABI', real, async (t) => {
  if (process.arch !== 'x64') return t.skip('only x64 has this gate')
  const open = await python(oldGate, '', 'none')
  if (open !== 'exit 0') t.diagnostic(`this kernel has no 32-bit calls (${open})`)
  assert.equal(await python(oldGate, '', 'base'), 'signal 31')
})

test('threads, processes and pipes work under both filters', real, async () => {
  const code = `
import subprocess, threading, tempfile, os
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
print(subprocess.run(['/bin/bash', '-c', 'echo a | cat; sync'], capture_output=True, text=True).stdout.strip())
`
  for (const filter of ['base', 'strict'] as const) assert.equal(await python(code, '', filter), 'a')
})
