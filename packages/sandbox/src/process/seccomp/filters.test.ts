import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Architecture, compileFilter, type FilterName, filterHash, numbers, writeFilters } from './filters.ts'
import { evaluate } from './interpreter.fixture.ts'
import { allowed, checked, refused } from './policy.ts'

const architectures: { readonly [Name in Architecture]: number } = { x64: 0xc000_003e, arm64: 0xc000_00b7 }
const i386 = 0x4000_0003

const words = (groups: readonly { readonly calls: string }[]): string[] =>
  groups.flatMap(({ calls }) => calls.split(/\s+/))

/** What a filter does with a call, by name or number. */
function verdict(architecture: Architecture, filter: FilterName, call: string | number, ...args: number[]): string {
  const number = typeof call === 'number' ? call : numbers[architecture].get(call)
  assert.ok(number !== undefined, `${architecture} has no ${call}`)
  const program = programs[architecture][filter]
  return evaluate(program, { architecture: architectures[architecture], number, arguments: args.map(BigInt) }).action
}

const programsOf = (architecture: Architecture) => ({
  base: compileFilter(architecture, 'base'),
  strict: compileFilter(architecture, 'strict'),
  offline: compileFilter(architecture, 'offline'),
})
const programs = { x64: programsOf('x64'), arm64: programsOf('arm64') }

const [EPERM, EINVAL, ENOSYS] = ['errno 1', 'errno 22', 'errno 38']
const [EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT] = ['errno 93', 'errno 94', 'errno 97']

/** Calls with arguments, and what becomes of them in the usual and in the hardened filter. */
const cases: readonly (readonly [call: string, args: readonly number[], base: string, strict?: string])[] = [
  ['read', [], 'allow'],
  ['execve', [], 'allow'],
  ['execveat', [], 'allow'],
  ['memfd_create', [], 'allow'],
  ['exit_group', [], 'allow'],
  ['rseq', [], 'allow'],
  ['clone3', [], ENOSYS],
  ['clone', [0x11], 'allow'],
  ['clone', [0x003d_0f00], 'allow'],
  ...[0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000].map(
    (flag) => ['clone', [flag | 0x11], EPERM] as const,
  ),
  ['unshare', [0], EPERM],
  ['setns', [], EPERM],
  ['io_uring_setup', [], EPERM],
  ['io_uring_enter', [], EPERM],
  ['io_uring_register', [], EPERM],
  ['io_setup', [], ENOSYS],
  ['keyctl', [], EPERM],
  ['add_key', [], EPERM],
  ['request_key', [], EPERM],
  ['ptrace', [], EPERM],
  ['process_vm_readv', [], EPERM],
  ['pidfd_getfd', [], EPERM],
  ['pidfd_open', [], 'allow'],
  ['bpf', [], EPERM],
  ['perf_event_open', [], EPERM],
  ['userfaultfd', [1], EPERM],
  ['mount', [], EPERM],
  ['fsopen', [], EPERM],
  ['pivot_root', [], EPERM],
  ['open_by_handle_at', [], EPERM],
  ['seccomp', [], EPERM],
  ['memfd_secret', [], EPERM],
  ['settimeofday', [], EPERM],
  ['reboot', [], EPERM],
  ['fanotify_init', [], ENOSYS],
  ['statmount', [], ENOSYS],
  ['sync', [], 'errno 0'],
  ['personality', [0], 'allow'],
  ['personality', [0xffff_ffff], 'allow'],
  ['personality', [0x0004_0000], EPERM],
  ['socket', [1, 1, 0], 'allow', 'allow'],
  ['socket', [1, 0x80801, 0], 'allow', 'allow'],
  ['socket', [2, 1, 6], 'allow', EAFNOSUPPORT],
  ['socket', [10, 2, 17], 'allow', EAFNOSUPPORT],
  ['socket', [2, 3, 1], ESOCKTNOSUPPORT, EAFNOSUPPORT],
  ['socket', [2, 0x80003, 255], ESOCKTNOSUPPORT, EAFNOSUPPORT],
  ['socket', [2, 10, 0], ESOCKTNOSUPPORT, EAFNOSUPPORT],
  ['socket', [2, 2, 1], EPROTONOSUPPORT, EAFNOSUPPORT],
  ['socket', [2, 1, 262], EPROTONOSUPPORT, EAFNOSUPPORT],
  ...[16, 17, 38, 40, 44].map((family) => ['socket', [family, 3, 0], EAFNOSUPPORT] as const),
  ['socketpair', [1, 1, 0], 'allow'],
  ['socketpair', [30, 1, 0], EAFNOSUPPORT],
  ['ioctl', [0, 0x5401], 'allow'],
  ['ioctl', [0, 0x5412], EPERM],
  ['ioctl', [0, 0x541c], EPERM],
  ['prctl', [15], 'allow'],
  ['prctl', [38], 'allow'],
  ['prctl', [22], EPERM],
  ['prctl', [35], EPERM],
  ['prctl', [0x5961_6d61], EPERM],
  ['sched_setscheduler', [0, 0], 'allow'],
  ['sched_setscheduler', [0, 5], 'allow'],
  ['sched_setscheduler', [0, 1], EPERM],
  ['sched_setscheduler', [0, 0x4000_0002], EPERM],
  ['sched_setattr', [], EPERM],
  ['prlimit64', [0, 7], 'allow'],
  ['prlimit64', [1, 7], EPERM],
  ['prlimit64', [0, 4, 0, 0x1000], 'allow'],
  ['prlimit64', [0, 4, 0x1000], EPERM],
  ['madvise', [0, 0, 4], 'allow'],
  ['madvise', [0, 0, 12], EINVAL],
  ['mknodat', [0, 0, 0o010_644], 'allow'],
  ['mknodat', [0, 0, 0o020_644], EPERM],
  ['mknodat', [0, 0, 0o060_644], EPERM],
  ['splice', [], 'allow', ENOSYS],
  ['shmget', [], 'allow', ENOSYS],
  ['inotify_init1', [], ENOSYS],
  ['fcntl', [0, 1], 'allow'],
  ['fcntl', [0, 1026], EPERM],
  ['fcntl', [0, 1024], EPERM],
  ['fcntl', [0, 6], 'allow', EPERM],
  ['setsockopt', [0, 1, 2], 'allow'],
  ['setsockopt', [0, 1, 26], EPERM],
  ['setsockopt', [0, 1, 50], EPERM],
  ['setsockopt', [0, 41, 26], 'allow'],
]

for (const architecture of ['x64', 'arm64'] as const) {
  test(`the ${architecture} filters decide each syscall and its arguments as the table states`, () => {
    for (const [call, args, base, strict = base] of cases) {
      const shown = `${call}(${args.map((arg) => arg.toString(16)).join(', ')})`
      assert.equal(verdict(architecture, 'base', call, ...args), base, shown)
      assert.equal(verdict(architecture, 'strict', call, ...args), strict, `${shown}, strict`)
    }
  })

  test(`the ${architecture} filters decide every number up to 1,023 by the lists and return ENOSYS for unlisted ones`, () => {
    const names = new Map([...numbers[architecture]].map(([name, number]) => [number, name]))
    const open = new Set([...words(allowed), ...words(checked)])
    const errno = new Map(refused.flatMap(({ calls, errno }) => calls.split(/\s+/).map((call) => [call, errno])))
    for (let number = 0; number < 1_024; number += 1) {
      const name = names.get(number) ?? ''
      const got = verdict(architecture, 'base', number)
      if (open.has(name)) assert.notEqual(got, ENOSYS, name)
      else assert.equal(got, `errno ${errno.get(name) ?? 38}`, `${number} ${name}`)
    }
  })

  test(`a syscall with another ABI than ${architecture} kills the process, whatever its number`, () => {
    const program = programs[architecture].base
    const others = [i386, 0, 0x4000_0028, ...Object.values(architectures)].filter(
      (one) => one !== architectures[architecture],
    )
    for (const other of others) {
      for (const number of [0, 1, 102, 400, 0xffff_ffff]) {
        assert.equal(evaluate(program, { architecture: other, number }).action, 'kill', `${other} ${number}`)
      }
    }
  })
}

test('x32, unassigned and negative syscall numbers return ENOSYS', () => {
  for (const number of [0x4000_0000, 0x4000_0001, 0x4000_0029, 0x4000_0000 + 520, 600, 100_000, 0xffff_ffff]) {
    assert.equal(verdict('x64', 'base', number), ENOSYS, String(number))
  }
})

test('the upper 32 bits of an argument, which the kernel drops, do not bypass a check', () => {
  const program = programs.x64.base
  const call = (name: string, ...args: bigint[]): string =>
    evaluate(program, { architecture: architectures.x64, number: numbers.x64.get(name) ?? -1, arguments: args }).action
  const high = 0xdead_beef_0000_0000n
  assert.equal(call('socket', high | 16n, 3n, 0n), EAFNOSUPPORT)
  assert.equal(call('ioctl', 0n, high | 0x5412n), EPERM)
  assert.equal(call('clone', high | 0x1000_0011n), EPERM)
  assert.equal(call('personality', high | 0x0004_0000n), EPERM)
})

test('every listed syscall has a number on some architecture, is listed once, and has a reason', () => {
  const all = [...allowed, ...checked, ...refused]
  const names = words(all)
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
    'named twice',
  )
  assert.deepEqual(
    names.filter((name) => !numbers.x64.has(name) && !numbers.arm64.has(name)),
    [],
    'unknown',
  )
  for (const { why } of all) assert.ok(why.length > 5)
})

test('syscall numbers equal those of the installed kernel headers', (t) => {
  const [x64, generic] = ['x86_64-linux-gnu/asm/unistd_64.h', 'asm-generic/unistd.h'].map((name) =>
    readIfThere(join('/usr/include', name)),
  )
  if (x64 === undefined || generic === undefined) return t.skip('there are no kernel headers')
  const defined = (text: string): [string, number][] =>
    [...text.matchAll(/#define __NR(?:3264)?_(\w+)\s+(\d+)/g)].map((match) => [match[1] ?? '', Number(match[2])])
  assert.ok(defined(x64).length > 350)
  for (const [name, number] of defined(x64)) assert.equal(numbers.x64.get(name), number, name)
  // The header names calls of 32-bit processors too; of those here each must be there under the same number.
  const there = new Map(defined(generic).map(([name, number]) => [name === 'fstatat' ? 'newfstatat' : name, number]))
  const [, last = 0] = defined(generic).reduce((one, other) => (other[1] > one[1] ? other : one))
  for (const [name, number] of numbers.arm64) if (number < last) assert.equal(there.get(name), number, name)
})

test('filters fit the kernel’s length limit, and a syscall is decided in few steps', () => {
  for (const architecture of ['x64', 'arm64'] as const) {
    for (const [name, program] of Object.entries(programs[architecture])) {
      const length = program.byteLength / 8
      assert.ok(length > 50 && length < 4_096, `${architecture} ${name} has ${length} instructions`)
      for (const number of numbers[architecture].values()) {
        const { steps } = evaluate(program, { architecture: architectures[architecture], number })
        assert.ok(steps <= 24, `${architecture} ${name} ${number} takes ${steps} steps`)
      }
    }
  }
})

test('each filter has its own hash over its bytes', () => {
  const hashes = (['x64', 'arm64'] as const).flatMap((one) => [filterHash(one, 'base'), filterHash(one, 'strict')])
  assert.equal(new Set(hashes).size, 4)
  assert.equal(hashes[0], createHash('sha256').update(programs.x64.base).digest('hex'))
})

test('both filters are written as read-only files that the launcher can open', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-filters-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const { base, strict } = await writeFilters(folder)
  assert.notEqual(base.hash, strict.hash)
  for (const { file } of [base, strict]) {
    assert.equal(statSync(file).mode & 0o777, 0o444)
    assert.equal(statSync(file).size % 8, 0)
  }
})

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

test('the filter for sandboxes with a network namespace of others allows Unix sockets alone, and all else that the usual one allows', () => {
  for (const architecture of ['x64', 'arm64'] as const) {
    for (const family of [2, 10]) assert.equal(verdict(architecture, 'offline', 'socket', family, 1, 0), EAFNOSUPPORT)
    assert.equal(verdict(architecture, 'offline', 'socket', 1, 1, 0), 'allow')
    assert.equal(verdict(architecture, 'offline', 'socketpair', 1, 1, 0), 'allow')
    for (const [call, args, base] of cases) {
      if (call !== 'socket') assert.equal(verdict(architecture, 'offline', call, ...args), base, call)
    }
  }
})
