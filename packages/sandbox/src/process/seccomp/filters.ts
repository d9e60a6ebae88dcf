import { createHash } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unavailable } from '../bubblewrap.ts'
import { type Action, allowed, type Check, checked, otherwise, refused } from './policy.ts'

/** One instruction of a classic BPF program, `struct sock_filter`. */
interface Instruction {
  readonly code: number
  readonly jumpTrue: number
  readonly jumpFalse: number
  readonly value: number
}

/** The action for the numbers from `first` up to the next rule's. */
export interface Rule {
  readonly first: number
  readonly action: Action
  readonly checks: readonly Check[]
}

/** Offsets in `struct seccomp_data`: number, architecture, and the 8-byte arguments, lower half first. */
const offsets = { number: 0, architecture: 4, arguments: 16 }
const codes = { load: 0x20, and: 0x54, jump: 0x05, ifEqual: 0x15, ifAtLeast: 0x35, return: 0x06 }
const actions = { killProcess: 0x8000_0000, allow: 0x7fff_0000, errno: 0x0005_0000 }
/** A conditional jump encodes its distance in one byte. */
const farthest = 255
const instructionBytes = 8

/**
 * A complete filter: a syscall with another ABI (`int 0x80`) kills the process, because its numbers mean other calls; then
 * a binary search finds the number, then its arguments are checked.
 */
export function assemble(architecture: number, rules: readonly Rule[]): Instruction[] {
  return [
    load(offsets.architecture),
    { code: codes.ifEqual, jumpTrue: 1, jumpFalse: 0, value: architecture },
    give(actions.killProcess),
    load(offsets.number),
    ...search(rules),
  ]
}

/** The program in the kernel's format, little endian on every supported architecture. */
export function toBytes(program: readonly Instruction[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(program.length * instructionBytes))
  for (const [index, { code, jumpTrue, jumpFalse, value }] of program.entries()) {
    const at = index * instructionBytes
    bytes.setUint16(at, code, true)
    bytes.setUint8(at + 2, jumpTrue)
    bytes.setUint8(at + 3, jumpFalse)
    bytes.setUint32(at + 4, value, true)
  }
  return new Uint8Array(bytes.buffer)
}

function search(rules: readonly Rule[]): Instruction[] {
  const [only] = rules
  if (only === undefined) throw new Error('a filter without rules')
  if (rules.length === 1) return leaf(only)
  const middle = rules.length >> 1
  const [lower, upper] = [search(rules.slice(0, middle)), search(rules.slice(middle))]
  const value = rules[middle]?.first ?? 0
  if (lower.length <= farthest) {
    return [{ code: codes.ifAtLeast, jumpTrue: lower.length, jumpFalse: 0, value }, ...lower, ...upper]
  }
  const over: Instruction = { code: codes.jump, jumpTrue: 0, jumpFalse: 0, value: lower.length }
  return [{ code: codes.ifAtLeast, jumpTrue: 0, jumpFalse: 1, value }, over, ...lower, ...upper]
}

function leaf({ action, checks }: Rule): Instruction[] {
  return [...checks.flatMap(conditional), give(action === 'allow' ? actions.allow : actions.errno | action.errno)]
}

/** A check that is skipped when a pointer is null, in both halves, or when another argument has a different value. */
function conditional(one: Check): Instruction[] {
  const body = check(one)
  if (one.when !== undefined) {
    const { argument, is } = one.when
    return [
      load(offsets.arguments + 8 * argument),
      { code: codes.ifEqual, jumpTrue: 0, jumpFalse: body.length, value: is },
      ...body,
    ]
  }
  if (one.unlessNull === undefined) return body
  const at = offsets.arguments + 8 * one.unlessNull
  return [
    load(at),
    { code: codes.ifEqual, jumpTrue: 0, jumpFalse: 2, value: 0 },
    load(at + 4),
    { code: codes.ifEqual, jumpTrue: body.length, jumpFalse: 0, value: 0 },
    ...body,
  ]
}

/** Continues after itself when the argument is valid. */
function check({ argument, mask, only, never, errno }: Check): Instruction[] {
  const values = only ?? never ?? []
  // A match jumps to the refusal for forbidden values, and past it for allowed ones.
  const found = only === undefined ? 1 : 2
  return [
    load(offsets.arguments + 8 * argument),
    ...(mask === undefined ? [] : [{ code: codes.and, jumpTrue: 0, jumpFalse: 0, value: mask }]),
    ...values.map((value, index): Instruction => {
      const behind = values.length - 1 - index
      return { code: codes.ifEqual, jumpTrue: behind + found, jumpFalse: 0, value }
    }),
    { code: codes.jump, jumpTrue: 0, jumpFalse: 0, value: only === undefined ? 1 : 0 },
    give(actions.errno | errno),
  ]
}

function load(offset: number): Instruction {
  return { code: codes.load, jumpTrue: 0, jumpFalse: 0, value: offset }
}

function give(value: number): Instruction {
  return { code: codes.return, jumpTrue: 0, jumpFalse: 0, value: value >>> 0 }
}

/**
 * Which of the filters: `strict` is for the profile `hardened`, `offline` for sandboxes whose network namespace is not
 * empty, as in a pod.
 */
export type FilterName = 'base' | 'strict' | 'offline'

/** A compiled filter on disk, with its SHA-256. */
export interface Filter {
  readonly file: string
  readonly hash: string
}

/** AUDIT_ARCH constants of the kernel. */
const audited: { readonly [Name in Architecture]: number } = { x64: 0xc000_003e, arm64: 0xc000_00b7 }

/** A filter in the format of `bwrap --seccomp`. The bytes are the same for each version of Gantry. */
export function compileFilter(architecture: Architecture, name: FilterName): Uint8Array {
  return toBytes(assemble(audited[architecture], rulesFor(architecture, name)))
}

/** The SHA-256 of a filter, as shown by audit records and `gantry doctor`. */
export function filterHash(architecture: Architecture, name: FilterName): string {
  return createHash('sha256').update(compileFilter(architecture, name)).digest('hex')
}

/** Writes the filters of the runtime `process` into a folder; rejects with RUNTIME_UNAVAILABLE on an unsupported architecture. */
export async function writeFilters(folder: string): Promise<{ readonly [Name in 'base' | 'strict']: Filter }> {
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64') {
    throw unavailable(`System calls of ${arch} are not known, so nothing filters them.`, 'Use an x64 or arm64 machine.')
  }
  const write = async (name: FilterName): Promise<Filter> => {
    const file = join(folder, `seccomp-${name}`)
    await writeFile(file, compileFilter(arch, name), { flag: 'wx' })
    await chmod(file, 0o444)
    return { file, hash: filterHash(arch, name) }
  }
  return { base: await write('base'), strict: await write('strict') }
}

/** Rules in the order of their numbers; adjacent numbers with the same action share a rule. */
function rulesFor(architecture: Architecture, name: FilterName): Rule[] {
  const known = numbers[architecture]
  const byNumber = new Map<number, Omit<Rule, 'first'>>()
  // A name without a number is a syscall that this architecture does not have.
  const put = (calls: string, rule: Omit<Rule, 'first'>): void => {
    for (const call of calls.split(/\s+/)) {
      const number = known.get(call)
      if (number !== undefined) byNumber.set(number, rule)
    }
  }
  for (const { calls, strict } of allowed) {
    if (name !== 'strict' || strict === undefined) put(calls, { action: 'allow', checks: [] })
  }
  for (const one of checked) {
    const { calls, checks } = one
    put(calls, { action: 'allow', checks: (name === 'base' ? undefined : one[name]) ?? checks })
  }
  for (const { calls, errno } of refused) put(calls, { action: { errno }, checks: [] })
  return merged(byNumber)
}

function merged(byNumber: ReadonlyMap<number, Omit<Rule, 'first'>>): Rule[] {
  const end = Math.max(...byNumber.keys()) + 1
  const rules: Rule[] = []
  for (let first = 0; first <= end; first += 1) {
    const rule: Rule = { first, ...(byNumber.get(first) ?? { action: otherwise, checks: [] }) }
    const before = rules.at(-1)
    if (before === undefined || !isSame(before, rule)) rules.push(rule)
  }
  return rules
}

function isSame(one: Rule, other: Rule): boolean {
  if (one.checks.length > 0 || other.checks.length > 0) return false
  const [a, b] = [one.action, other.action]
  return a === b || (typeof a === 'object' && typeof b === 'object' && a.errno === b.errno)
}

/** Supported architectures, by Node's names. */
export type Architecture = 'x64' | 'arm64'

/** Syscall numbers by name. */
export type Numbers = ReadonlyMap<string, number>

/** asm/unistd_64.h of x86. */
const x64 = table(`
  0: read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
    rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise
    shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept
    sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt
    clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock
    fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink
    readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid
    syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups
    setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending
    rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs
    sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup
    modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2
    swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
    get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead
    setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr
    lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup
    io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old
    epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create
    timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres
    clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open
    mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl
    ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat
    fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll
    unshare set_robust_list get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait
    signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2
    epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init
    fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu
    process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
    memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2
    pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
`)

/** asm-generic/unistd.h as arm64 sets it. */
const arm64 = table(`
  0: io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr
    listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2
    epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl
    ioprio_set ioprio_get flock mknodat mkdirat unlinkat symlinkat linkat renameat umount2 mount pivot_root
    nfsservctl statfs fstatfs truncate ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat
    fchown openat close vhangup pipe2 quotactl getdents64 lseek read write readv writev pread64 pwrite64 preadv
    pwritev sendfile pselect6 ppoll signalfd4 vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync
    sync_file_range timerfd_create timerfd_settime timerfd_gettime utimensat acct capget capset personality exit
    exit_group waitid set_tid_address unshare futex set_robust_list get_robust_list nanosleep getitimer setitimer
    kexec_load init_module delete_module timer_create timer_gettime timer_getoverrun timer_settime timer_delete
    clock_settime clock_gettime clock_getres clock_nanosleep syslog ptrace sched_setparam sched_setscheduler
    sched_getscheduler sched_getparam sched_setaffinity sched_getaffinity sched_yield sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn setpriority getpriority
    reboot setregid setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid setfsgid times setpgid
    getpgid getsid setsid getgroups setgroups uname sethostname setdomainname getrlimit setrlimit getrusage umask
    prctl getcpu gettimeofday settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid sysinfo
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd semget semctl
    semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept connect getsockname getpeername
    sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key request_key
    keyctl clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore
    madvise remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo
    perf_event_open accept4 recvmmsg
  260: wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns
    sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp
    getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
    pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load
`)

/** New syscalls have the same number on all architectures. */
const both = table(`
  424: pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig
    fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2
    mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret
    process_mrelease futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait
    futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat
    getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr
`)

export const numbers: { readonly [Name in Architecture]: Numbers } = {
  x64: new Map([...x64, ...both]),
  arm64: new Map([...arm64, ...both]),
}

/** Parses `first: name name …`, where the numbers count up from `first`. */
function table(text: string): [string, number][] {
  let next = 0
  return text.split(/\s+/).flatMap((word): [string, number][] => {
    if (word === '') return []
    if (!word.endsWith(':')) return [[word, next++]]
    next = Number(word.slice(0, -1))
    return []
  })
}
