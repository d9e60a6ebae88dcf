import type { Attack } from './attack.ts'
import { callingPython, canaryIn, endOf, onStage, programAttack, wasmHas } from './programs.ts'

const explained = { wasm: wasmHas.noCalls }

/** Of processors that can make calls by the numbers of another one. */
const x64Only = {
  ...explained,
  ...(process.arch === 'x64' ? {} : { process: 'Only x64 processors have a second convention for system calls.' }),
}

/** Machine code that makes one call of 32-bit programs, `int 0x80`; its numbers mean other calls than ours. */
const oldGate = `
import mmap
def gate(number, first=0, second=0, third=0):
    code = b'\\x53\\xb8' + number.to_bytes(4, 'little') + b'\\xbb' + first.to_bytes(4, 'little')
    code += b'\\xb9' + second.to_bytes(4, 'little') + b'\\xba' + third.to_bytes(4, 'little') + b'\\xcd\\x80\\x5b\\xc3'
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
def low_page(words):
    """Words at an address that fits into 32 bits."""
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    place = libc.mmap(None, 4096, 3, 0x62, -1, 0)
    ctypes.memmove(place, b''.join(word.to_bytes(4, 'little') for word in words), 4 * len(words))
    return place
`

const oldCalls = programAttack({
  number: 32,
  title: 'int 0x80: system calls by their 32-bit numbers',
  code: `${oldGate}
tries('getpid', lambda: alone(lambda: gate(20) == os.getpid()))
tries('unshare', lambda: alone(lambda: gate(310, 0x10000000) == 0))
return managed`,
  shown: ['getpid', 'unshare'],
  explained: x64Only,
})

const x32Calls = programAttack({
  number: 33,
  title: 'system calls with the x32 bit',
  code: `
tries('getpid', lambda: alone(lambda: call(0x40000000 | 39) == os.getpid()))
tries('ptrace', lambda: alone(lambda: call(0x40000000 | 521, 0, 0, 0, 0) == 0))
return managed`,
  control: 'few kernels have x32 in them, and this is one that answers ENOSYS by itself',
  explained: x64Only,
})

const oldSockets = programAttack({
  number: 34,
  title: 'the 32-bit socketcall, to bypass the rules for address families',
  code: `${oldGate}
import stat
for name, words in (('netlink', (16, 3, 0)), ('packet', (17, 3, 0)), ('raw', (2, 3, 255)), ('unix', (1, 1, 0))):
    # A kernel that takes the number for another call answers with something that is no socket.
    tries(name, lambda: alone(lambda: stat.S_ISSOCK(os.fstat(gate(102, 1, low_page(words))).st_mode)))
return managed`,
  shown: ['netlink', 'raw', 'unix'],
  explained: x64Only,
})

const ring = programAttack({
  number: 35,
  title: 'io_uring; programs that try it are refused and not killed',
  code: `
params = ctypes.create_string_buffer(256)
tries('ring', lambda: call('io_uring_setup', 8, params) >= 0)
tries('registered', lambda: errno_of('io_uring_register', -1, 0, 0, 0) not in (1, 38))
tries('other answer', lambda: errno_of('io_uring_setup', 8, params) != 1)
return managed`,
  shown: ['ring'],
  explained,
})

const userFaults = programAttack({
  number: 36,
  title: 'userfaultfd, restricted to user mode and unrestricted',
  code: `
for flags in (0, 1): tries(str(flags), lambda: call('userfaultfd', flags) >= 0)
tries('device', lambda: os.open('/dev/userfaultfd', os.O_RDWR) >= 0)
return managed`,
  shown: ['0', '1'],
  explained,
})

const keyCalls = `
def text(value): return ctypes.c_char_p(value.encode())
SESSION, USER, USER_SESSION, READ, SEARCH = -3, -4, -5, 11, 10
for name, ring in (('session', SESSION), ('user', USER), ('user session', USER_SESSION)):
    def read():
        key = call('keyctl', SEARCH, ring, text('user'), text(given), 0)
        buffer = ctypes.create_string_buffer(100)
        return call('keyctl', READ, key, buffer, 100) > 0
    tries('read ' + name, read)
    tries('list ' + name, lambda: call('keyctl', 0, ring, 0) > 0)
tries('add', lambda: call('add_key', text('user'), text(given + '-own'), text('x'), 1, -2) > 0)
tries('request', lambda: call('request_key', text('user'), text(given), 0, 0) > 0)
return managed`

/** A session keyring with a secret in it, as a worker may be started with. */
const keyring = (name: string): string => `
import ctypes
libc = ctypes.CDLL(None)
numbers = (250, 248) if os.uname().machine == 'x86_64' else (219, 217)
libc.syscall(numbers[0], 1, None)
libc.syscall(numbers[1], b'user', b'${name}', b'secret', 6, -3)`

const keys: Attack = {
  number: 37,
  title: "keyctl: a secret in the worker's session keyring, and new keys",
  attempt: async (ground) => endOf(keysOf(ground.runtime.kind).length > 0),
  control: async () => endOf(['read session', 'add', 'request'].every((name) => keysOf().includes(name))),
  explained,
}

function keysOf(kind?: string): string[] {
  const name = `gantry-attack-${crypto.randomUUID()}`
  const managed = onStage(callingPython(keyCalls, name), {
    before: keyring(name),
    ...(kind === undefined ? {} : { kind }),
  })
  if (!Array.isArray(managed)) throw new Error('The worker gave no answer.')
  return managed.map(String)
}

const kernelPrograms = programAttack({
  number: 38,
  title: 'bpf and perf_event_open',
  code: `
import struct
def counter(kind, config):
    event = ctypes.create_string_buffer(struct.pack('IIQ', kind, 128, config), 128)
    return call('perf_event_open', event, 0, -1, -1, 0) >= 0
def of_all():
    event = ctypes.create_string_buffer(struct.pack('IIQ', 1, 128, 0), 128)
    return call('perf_event_open', event, -1, 0, -1, 0) >= 0
tries('map', lambda: call('bpf', 0, ctypes.create_string_buffer(struct.pack('IIII', 2, 4, 4, 1), 128), 128) >= 0)
tries('own clock', lambda: counter(1, 0))
tries('hardware', lambda: counter(0, 0))
tries('all', of_all)
return managed`,
  explained,
})

const oddModes = programAttack({
  number: 39,
  title: 'personality, modify_ldt and vm86',
  code: `
import struct
def persona(bits):
    call('personality', bits)
    return call('personality', 0xffffffff) & bits == bits
tries('no randomness', lambda: alone(lambda: persona(0x0040000)))
tries('readable is executable', lambda: alone(lambda: persona(0x0400000)))
tries('32 bits', lambda: alone(lambda: persona(0x0000008)))
if 'modify_ldt' in calls:
    entry = ctypes.create_string_buffer(struct.pack('IIII', 0, 0, 0xfffff, 0x51), 16)
    tries('ldt', lambda: alone(lambda: call('modify_ldt', 1, entry, 16) == 0))
    tries('ldt read', lambda: alone(lambda: call('modify_ldt', 0, ctypes.create_string_buffer(64), 64) >= 0))
return managed`,
  shown: ['no randomness', 'readable is executable', ...(process.arch === 'x64' ? ['ldt'] : [])],
  explained,
})

const handles = programAttack({
  number: 40,
  title: 'open files by handle, past all directories',
  code: `
import struct
def handle_of(path):
    handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136)
    mount = ctypes.c_int()
    call('name_to_handle_at', -100, ctypes.c_char_p(path.encode()), handle, ctypes.byref(mount), 0)
    return handle
def read_by(handle, beside):
    file = call('open_by_handle_at', os.open(beside, os.O_RDONLY), handle, os.O_RDONLY)
    return len(os.read(file, 100)) > 0
tries('named', lambda: handle_of('/usr') is not None)
tries('canary', lambda: read_by(handle_of(given), os.path.dirname(given)))
# The root of an ext4 has inode 2, whatever a sandbox sees of it.
forged = ctypes.create_string_buffer(struct.pack('IiII', 8, 1, 2, 0), 136)
tries('forged', lambda: call('open_by_handle_at', os.open('/usr', os.O_RDONLY), forged, os.O_RDONLY) >= 0)
return managed`,
  given: (ground) => canaryIn(ground).path,
  shown: ['named', 'canary'],
  explained,
})

const families = programAttack({
  number: 41,
  title: 'netlink, packet, vsock, raw and other rare sockets',
  code: `
import socket
STREAM, DATAGRAM, RAW, SEQUENCED = 1, 2, 3, 5
wanted = [('vsock', 40, STREAM, 0), ('alg', 38, SEQUENCED, 0), ('packet', 17, RAW, 0x300), ('packet datagram', 17, DATAGRAM, 0),
  ('netlink', 16, RAW, 0), ('netlink filter', 16, RAW, 12), ('raw', 2, RAW, 255), ('raw icmp', 2, RAW, 1), ('ping', 2, DATAGRAM, 1),
  ('raw 6', 10, RAW, 255), ('key', 15, RAW, 2), ('xdp', 44, RAW, 0), ('can', 29, RAW, 1), ('bluetooth', 31, RAW, 1),
  ('tipc', 30, SEQUENCED, 0), ('rds', 21, SEQUENCED, 0), ('smc', 43, STREAM, 0), ('nfc', 39, SEQUENCED, 0), ('qipcrtr', 42, DATAGRAM, 0),
  ('sctp', 2, STREAM, 132), ('mptcp', 2, STREAM, 262), ('dccp', 2, 6, 33), ('x25', 9, SEQUENCED, 0), ('ax25', 3, DATAGRAM, 0)]
# In disguise: with a bit in the upper half of the argument, which the kernel does not look at and a filter must not either.
for name, family, kind, protocol in wanted:
    tries(name, lambda: call('socket', family, kind, protocol) >= 0)
    tries(name + ' in disguise', lambda: call('socket', family | (1 << 40), kind | 0o2000000, protocol) >= 0)
return managed`,
  shown: ['netlink', 'packet', 'raw', 'netlink in disguise'],
  explained,
})

/** A program executed from memory is under the same filter, and memory that the kernel cannot read is refused. */
const memoryFiles = programAttack({
  number: 42,
  title: 'run a program from a memfd past the filter, and allocate secret memory',
  code: `
def unfiltered():
    file = os.memfd_create('program')
    os.write(file, open('/usr/bin/grep' if os.path.exists('/usr/bin/grep') else '/bin/grep', 'rb').read())
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(writer, 1)
        words = (ctypes.c_char_p * 4)(b'grep', b'Seccomp:', b'/proc/self/status', None)
        call('execveat', file, ctypes.c_char_p(b''), words, (ctypes.c_char_p * 1)(None), 0x1000)
        os._exit(1)
    os.close(writer)
    return os.read(reader, 100).split() != [b'Seccomp:', b'2']
tries('unfiltered', unfiltered)
tries('secret', lambda: call('memfd_secret', 0) >= 0)
return managed`,
  shown: ['unfiltered', 'secret'],
  explained,
})

const ownFilter = programAttack({
  number: 43,
  title: 'install a seccomp filter, with and without a listener',
  code: `
import struct
allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(allow)))
libc.prctl(38, 1, 0, 0, 0)
tries('listener', lambda: alone(lambda: call('seccomp', 1, 8, program) >= 0))
tries('filter', lambda: alone(lambda: call('seccomp', 1, 0, program) == 0))
tries('prctl', lambda: alone(lambda: call('prctl', 22, 2, program, 0, 0) == 0))
return managed`,
  shown: ['listener', 'filter', 'prctl'],
  explained,
})

/**
 * Called so that nothing would happen where it is allowed: the error shows whether the kernel would have accepted the
 * call.
 */
const kernelControl = programAttack({
  number: 44,
  title: 'kexec, modules, accounting, swap, quotas, the clock, I/O ports, the host name, a reboot',
  code: `
REFUSED, ABSENT = 1, 38
name = os.uname().nodename.encode()
nowhere = ctypes.c_char_p(b'/nonexistent/file')
wanted = {'kexec_load': (0, 0, 0, 0x7fff), 'kexec_file_load': (-1, -1, 0, 0, 0x7fff), 'init_module': (0, 0, 0), 'finit_module': (-1, 0, 0),
  'delete_module': (ctypes.c_char_p(b'no-such-module'), 0), 'acct': (nowhere,), 'swapon': (nowhere, 0), 'swapoff': (nowhere,),
  'quotactl': (0x800000 << 8, nowhere, 0, 0), 'settimeofday': (0, 0), 'clock_settime': (0, 0), 'adjtimex': (0,), 'iopl': (0,),
  'ioperm': (0x80, 1, 1), 'reboot': (0, 0, 0, 0), 'sethostname': (name, len(name)), 'setdomainname': (ctypes.c_char_p(b'(none)'), 6),
  'vhangup': None, 'create_module': (0, 0), 'lookup_dcookie': (0, 0, 0), 'bdflush': None}
for one, args in wanted.items():
    if args is not None and one in calls: tries(one, lambda: errno_of(one, *args) not in (REFUSED, ABSENT))
return managed`,
  // Kernels are built without modules, kexec and ports too.
  shown: ['acct', 'swapon', 'reboot', 'sethostname', 'clock_settime'],
  explained,
})

/** Calls that this kernel has and no list names, and numbers that no kernel has: both fail with ENOSYS. */
const unknownCalls = programAttack({
  number: 45,
  title: 'system calls that no list names, and unassigned numbers',
  code: `
there = {'landlock_create_ruleset': 444, 'process_mrelease': 448, 'listmount': 458, 'lsm_list_modules': 461, 'statmount': 457}
for name, number in there.items(): tries(name, lambda: errno_of(number, 0, 0, 0, 0) != 38)
for name in ('mq_open', 'io_setup', 'fanotify_init', 'migrate_pages', 'move_pages', 'mbind', 'remap_file_pages', 'ustat', 'sysfs'):
    if name in calls: tries(name, lambda: errno_of(name, 0, 0, 0, 0, 0) != 38)
for number in (600, 601, 999, 1024, 5000, 0x3fffffff, 0x7fffffff): tries(str(number), lambda: errno_of(number, 0, 0, 0) != 38)
return managed`,
  shown: ['landlock_create_ruleset', 'io_setup', 'mq_open'],
  explained,
})

/** 32–45: system calls by number. */
export const syscallAttacks: readonly Attack[] = [
  ...[oldCalls, x32Calls, oldSockets, ring, userFaults, keys, kernelPrograms, oddModes, handles, families],
  ...[memoryFiles, ownFilter, kernelControl, unknownCalls],
]
