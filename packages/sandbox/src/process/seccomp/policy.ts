/** The action for a syscall: allow, or refuse with an error number; 0 pretends success. */
export type Action = 'allow' | { readonly errno: number }

/** A check of the lower half of an argument, which is the whole value for the syscalls below; the first failure refuses. */
export interface Check {
  readonly argument: number
  /** Only these bits are compared. */
  readonly mask?: number
  /** The allowed values, or the forbidden ones. */
  readonly only?: readonly number[]
  readonly never?: readonly number[]
  /** Skipped when this argument, a pointer, is null. */
  readonly unlessNull?: number
  /** Applied only when the lower half of this argument has this value. */
  readonly when?: { readonly argument: number; readonly is: number }
  readonly errno: number
}

/** Syscalls with the same action, and the reason. */
export interface Group {
  readonly why: string
  readonly calls: string
  /** Refused in the profile `hardened`. */
  readonly strict?: 'without'
}

/** A syscall that is allowed only with some arguments. */
export interface Checked {
  readonly why: string
  readonly calls: string
  readonly checks: readonly Check[]
  /** Replaces `checks` in the profile `hardened`. */
  readonly strict?: readonly Check[]
  /** Replaces `checks` where only the filter keeps a sandbox from the network. */
  readonly offline?: readonly Check[]
}

export const errors = { EPERM: 1, EINVAL: 22, ENOSYS: 38, EPROTONOSUPPORT: 93, ESOCKTNOSUPPORT: 94, EAFNOSUPPORT: 97 }
const { EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT } = errors

/** Unlisted numbers, also future ones and x32, return ENOSYS, so that programs fall back to older syscalls. */
export const otherwise: Action = { errno: ENOSYS }

/** Syscalls that programs need, as container runtimes allow them, minus those below. */
export const allowed: readonly Group[] = [
  {
    why: 'files by path and by descriptor; the mounts decide which',
    calls: `access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
      fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync flock fstat fstatfs fsync ftruncate
      getcwd getdents getdents64 lchown link linkat lseek lstat mkdir mkdirat newfstatat open openat openat2 pread64
      preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv rename renameat renameat2 rmdir
      sendfile stat statfs statx symlink symlinkat sync_file_range truncate umask unlink unlinkat utime utimensat utimes
      futimesat write writev`,
  },
  {
    why: 'attributes of files, which archivers copy',
    calls: `fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr
      removexattr setxattr`,
  },
  {
    why: 'memory of the program itself',
    calls: `brk map_shadow_stack membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap mseal msync
      munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect`,
  },
  {
    why: 'processes and threads; those of the sandbox are all that a program sees',
    calls: `arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue futex_wait futex_waitv
      futex_wake get_robust_list getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority
      getresgid getresuid getrlimit getrusage getsid gettid getuid kill pidfd_open pidfd_send_signal restart_syscall
      rseq set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority setregid setresgid
      setresuid setreuid setsid setuid tgkill times tkill vfork wait4 waitid`,
  },
  {
    why: 'scheduling, where no rlimit gives more than the others have',
    calls: `ioprio_get sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
      sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam sched_yield`,
  },
  {
    why: 'signals',
    calls: `pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
      rt_tgsigqueueinfo sigaltstack signalfd signalfd4`,
  },
  {
    why: 'time, as long as it is read',
    calls: `alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time timer_create
      timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime`,
  },
  {
    why: 'waiting for many things at once, and pipes',
    calls: `epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 pipe pipe2 poll
      ppoll pselect6 select`,
  },
  {
    why: 'sockets once made; which can be made is checked below',
    calls: `accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg
      sendmsg sendto shutdown`,
  },
  { why: 'facts about the system, and random numbers', calls: 'getrandom sysinfo uname' },
  {
    why: 'pages moved between pipes and files, which had the worst faults of late',
    calls: 'splice tee vmsplice',
    strict: 'without',
  },
  {
    why: 'System V communication, within the sandbox',
    calls: `msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmdt`,
    strict: 'without',
  },
]

const namespaces = 0x7e02_0000
const families = { unix: 1, inet: 2, inet6: 10 }
const streamDatagramSeqpacket = [1, 2, 5]
const fileType = 0o170_000
const coreLimit = 4
const [characterDevice, blockDevice] = [0o020_000, 0o060_000]

const socketChecks = (allowed: readonly number[]): Check[] => [
  { argument: 0, only: allowed, errno: EAFNOSUPPORT },
  { argument: 1, mask: 0xf, only: streamDatagramSeqpacket, errno: ESOCKTNOSUPPORT },
  { argument: 2, only: [0, 6, 17], errno: EPROTONOSUPPORT },
]

/** Refuses all arguments, like an unlisted syscall. */
const without: readonly Check[] = [{ argument: 0, only: [], errno: ENOSYS }]

export const checked: readonly Checked[] = [
  {
    why: 'threads and processes, no namespaces',
    calls: 'clone',
    checks: [{ argument: 0, mask: namespaces, only: [0], errno: EPERM }],
  },
  {
    why: 'TCP, UDP and sockets of the file system; nothing raw, of the kernel or of the hypervisor',
    calls: 'socket',
    checks: socketChecks(Object.values(families)),
    strict: socketChecks([families.unix]),
    offline: socketChecks([families.unix]),
  },
  { why: 'as above', calls: 'socketpair', checks: [{ argument: 0, only: [families.unix], errno: EAFNOSUPPORT }] },
  {
    why: 'typing into a terminal (TIOCSTI) and pasting into a console (TIOCLINUX)',
    calls: 'ioctl',
    checks: [{ argument: 1, never: [0x5412, 0x541c], errno: EPERM }],
  },
  {
    why: 'PR_SET_SECCOMP, PR_SET_MM, PR_SCHED_CORE and PR_SET_PTRACER change how a process is watched or laid out',
    calls: 'prctl',
    checks: [{ argument: 0, never: [22, 35, 62, 0x5961_6d61], errno: EPERM }],
  },
  {
    why: 'the usual one, or the question which it is; others make memory easier to guess',
    calls: 'personality',
    checks: [{ argument: 0, only: [0, 0xffff_ffff], errno: EPERM }],
  },
  {
    why: 'normal, batch and idle; no real time',
    calls: 'sched_setscheduler',
    checks: [{ argument: 1, only: [0, 3, 5], errno: EPERM }],
  },
  {
    why: 'limits of the caller, not of the init, which has the same uid',
    calls: 'prlimit64',
    checks: [
      { argument: 0, only: [0], errno: EPERM },
      { argument: 1, never: [coreLimit], unlessNull: 2, errno: EPERM },
    ],
  },
  {
    why: 'the limit on core dumps stays: at 0 a host that pipes them would start a program of its own with our memory',
    calls: 'setrlimit',
    checks: [{ argument: 0, never: [coreLimit], errno: EPERM }],
  },
  {
    why: 'programs on sockets: they are compiled into memory that the whole machine shares',
    calls: 'setsockopt',
    checks: [{ argument: 2, never: [26, 50, 51, 52], when: { argument: 1, is: 1 }, errno: EPERM }],
  },
  {
    why: 'F_NOTIFY tells which files others use, F_SETLEASE makes others wait, F_SETPIPE_SZ takes pages that are counted by uid',
    calls: 'fcntl',
    checks: [{ argument: 1, never: [1024, 1026, 1031], errno: EPERM }],
    // Range locks use kernel memory that no limit counts; flock remains.
    strict: [{ argument: 1, never: [6, 7, 37, 38, 1024, 1026, 1031], errno: EPERM }],
  },
  {
    why: 'SHM_LOCK locks memory that a uid has a number of',
    calls: 'shmctl',
    checks: [{ argument: 1, mask: 0xff, never: [11], errno: EPERM }],
    strict: without,
  },
  {
    why: 'SHM_HUGETLB does too',
    calls: 'shmget',
    checks: [{ argument: 2, mask: 0o4000, only: [0], errno: EPERM }],
    strict: without,
  },
  {
    why: 'MADV_MERGEABLE shares pages with strangers, and the time of a write tells what they hold',
    calls: 'madvise',
    checks: [{ argument: 2, never: [12], errno: EINVAL }],
  },
  {
    why: 'pipes and sockets, no devices',
    calls: 'mknod',
    checks: [{ argument: 1, mask: fileType, never: [characterDevice, blockDevice], errno: EPERM }],
  },
  {
    why: 'as above',
    calls: 'mknodat',
    checks: [{ argument: 2, mask: fileType, never: [characterDevice, blockDevice], errno: EPERM }],
  },
]

/** Refused with an error that programs expect and handle. */
export const refused: readonly (Group & { readonly errno: number })[] = [
  {
    why: 'a ring of system calls that no filter sees',
    calls: 'io_uring_enter io_uring_register io_uring_setup',
    errno: EPERM,
  },
  { why: 'its flags cannot be seen; the C library then uses clone', calls: 'clone3', errno: ENOSYS },
  { why: 'keys of the kernel belong to users, not to namespaces', calls: 'add_key keyctl request_key', errno: EPERM },
  {
    why: 'other processes, their memory and descriptors',
    calls: 'kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev ptrace',
    errno: EPERM,
  },
  {
    why: 'programs in the kernel, and counters that tell of others',
    calls: 'bpf perf_event_open',
    errno: EPERM,
  },
  { why: 'a fault handled at leisure widens races in the kernel', calls: 'userfaultfd', errno: EPERM },
  { why: 'namespaces', calls: 'setns unshare', errno: EPERM },
  {
    why: 'mounts and roots',
    calls: `chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree open_tree_attr pivot_root
      umount2`,
    errno: EPERM,
  },
  { why: 'files by number, past all folders', calls: 'name_to_handle_at open_by_handle_at', errno: EPERM },
  {
    why: 'the running kernel: modules, restart, accounts, swap, quotas, names, log',
    calls: `acct delete_module finit_module init_module kexec_file_load kexec_load quotactl quotactl_fd reboot
      setdomainname sethostname swapoff swapon syslog vhangup`,
    errno: EPERM,
  },
  {
    why: 'watching files: /usr is that of the host, and shows which programs others run',
    calls: 'inotify_add_watch inotify_init inotify_init1 inotify_rm_watch',
    errno: ENOSYS,
  },
  { why: 'the clock', calls: 'adjtimex clock_adjtime clock_settime settimeofday', errno: EPERM },
  { why: 'ports and segments of the processor', calls: 'ioperm iopl modify_ldt', errno: EPERM },
  { why: 'memory that no other process can count or read', calls: 'memfd_secret', errno: EPERM },
  { why: 'a filter below ours could hand its calls to another process', calls: 'seccomp', errno: EPERM },
  {
    why: 'priorities over others: real time by a structure that cannot be seen, and of disks',
    calls: 'ioprio_set sched_setattr',
    errno: EPERM,
  },
  {
    why: 'would write out all disks of the host, while the workspace is in memory: done by doing nothing',
    calls: 'sync syncfs',
    errno: 0,
  },
]
