import { spawn, spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { type Attack, type AttackEnd, attackLimits, isInPod } from './attack.ts'
import { hostProcesses, stateOf } from './host.ts'
import { started } from './proc.ts'
import { privilegeAttacks } from './processes-privileges.ts'
import {
  asRoot,
  callingPython,
  endOf,
  hasOwnKernel,
  managedBy,
  onHost,
  programAttack,
  python,
  wasmHas,
} from './programs.ts'

const explained = { wasm: wasmHas.noProcesses }

/** While an ordinary process of the host runs; whether it still does at the end counts. */
async function withVictim(attack: (pid: number) => Promise<void>, looks = 1): Promise<AttackEnd> {
  const victim = spawn('sleep', ['300'], { stdio: 'ignore' })
  try {
    await started(victim)
    await attack(victim.pid ?? 0)
    const isUnhurt = (): boolean => ['S', 'R', 'D'].includes(stateOf(victim.pid ?? 0) ?? 'gone')
    // A signal takes effect when the victim next runs, which is later than the attack on a busy machine.
    for (let look = 1; look < looks && isUnhurt(); look++) await new Promise((resolve) => setTimeout(resolve, 20))
    return endOf(!isUnhurt())
  } finally {
    victim.kill('SIGKILL')
  }
}

const killing = `
import signal
for name in ('SIGSTOP', 'SIGTERM', 'SIGKILL'):
    number = getattr(signal, name)
    for target in (1, os.getppid(), -1, *given):
        try: os.kill(target, number)
        except OSError: pass
return managed`

const killAllProcesses: Attack = {
  number: 21,
  title: 'kill -9 -1 and kill the parent: other processes survive, and the run ends',
  attempt: (ground) =>
    withVictim(async (pid) => {
      const run = ground.inside(python(killing, [pid, process.pid, process.ppid, -process.pid]))
      // gVisor's first process can be killed from inside: then the program has ended its own sandbox.
      // In a pod the bridge has the uid of the program, which so has cut its own connection.
      if (hasOwnKernel(ground) || isInPod(ground.kind)) await run.catch(throwUnlessBroken)
      else managedBy(await run)
      managedBy(await ground.inside(python('return managed')))
    }),
  // Only ever in a process namespace with a victim in it: it would end everything here.
  control: asRoot(async () => {
    const text = 'sleep 30 & victim=$!; kill -9 -1; wait $victim; test $? -gt 128'
    const { status } = spawnSync('unshare', ['--pid', '--fork', '--kill-child', 'sh', '-c', text], { timeout: 10_000 })
    return endOf(status === 0)
  }),
  explained,
}

function throwUnlessBroken(error: unknown): void {
  if (!ToolError.is(error) || error.code !== 'BACKEND_FAILED') throw error
}

/** Reads a secret from another process in three ways, and copies a descriptor of it. */
const spying = `
import time
secret = ctypes.create_string_buffer(b'kept-to-itself')
where, size = ctypes.addressof(secret), len(secret)
sibling = os.fork()
if sibling == 0:
    libc.prctl(4, 1, 0, 0, 0)
    time.sleep(20)
    os._exit(0)
class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
def read_memory(pid):
    buffer = ctypes.create_string_buffer(size)
    here, there = Vector(ctypes.addressof(buffer), size), Vector(where, size)
    return call('process_vm_readv', pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == size
def trace(pid):
    call('ptrace', 16, pid, 0, 0)
    os.waitpid(pid, 0x40000000)
    call('ptrace', 17, pid, 0, 0)
    return True
def seize(pid): return call('ptrace', 0x4206, pid, 0, 0) == 0
def take_descriptor(pid): return call('pidfd_getfd', call('pidfd_open', pid, 0), 2, 0) >= 0
try:
    for name, pid in [('sibling', sibling)] + [(f'{pid}', pid) for pid in given]:
        for way in (read_memory, take_descriptor, trace): tries(name + ' ' + way.__name__, lambda: way(pid))
        if pid != sibling: tries(name + ' seize', lambda: seize(pid))
    tries('memory file', lambda: os.pread(os.open(f'/proc/{given[0]}/mem', os.O_RDONLY), size, where) if given else False)
    tries('traced', lambda: call('ptrace', 0, 0, 0, 0) == 0 if given else False)
finally: os.kill(sibling, 9)
return managed`

const spyOnOthers: Attack = {
  number: 22,
  title: 'ptrace, process_vm_readv and pidfd_getfd of a sibling and of the init process',
  attempt: async ({ inside }) => endOf(managedBy(await inside(callingPython(spying, [1]))).length > 0),
  control: async ({ outside }) => {
    const managed = managedBy(await outside(callingPython(spying, [])))
    return endOf(['read_memory', 'take_descriptor', 'trace'].every((way) => managed.includes(`sibling ${way}`)))
  },
  explained,
}

const stopping = `
for pid in given:
    for request in (16, 0x4206):
        try: call('ptrace', request, pid, 0, 0)
        except OSError: pass
    try: os.kill(pid, 19)
    except OSError: pass
print('done', flush=True)
os._exit(0)`

const stopFirst: Attack = {
  number: 23,
  title: 'the init process of the sandbox is traced and left stopped: the run still ends',
  async attempt({ inside, runtime }) {
    const { exit, hit } = await inside(callingPython(stopping, [1]), { limits: { ...attackLimits, wallMs: 8_000 } })
    // gVisor's first process can be stopped from inside: the clock of the worker, which is outside, ends the run.
    if (hasOwnKernel({ runtime }) && hit === 'wallMs') return 'blocked'
    return endOf(hit !== undefined || !('code' in exit) || exit.code !== 0)
  },
  control: (ground) => withVictim(async (pid) => void (await ground.outside(callingPython(stopping, [pid]))), 250),
  explained,
}

const userNamespace = programAttack({
  number: 24,
  title: 'a nested user namespace, by unshare, clone and clone3',
  code: `
import struct, subprocess
NEWUSER, CHILD = 0x10000000, 17
own = os.readlink('/proc/self/ns/user')
def unshared():
    call('unshare', NEWUSER)
    return os.readlink('/proc/self/ns/user') != own
def cloned(flags):
    pid = call('clone', flags | CHILD, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    return True
def cloned3():
    args = struct.pack('8Q', NEWUSER, 0, 0, 0, CHILD, 0, 0, 0)
    pid = call('clone3', args, len(args))
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    return True
tries('unshare', lambda: alone(unshared))
for flags in (NEWUSER, 0x20000000, 0x40000000, 0x00020000): tries(f'clone {flags:x}', lambda: alone(lambda: cloned(flags)))
tries('clone3', lambda: alone(cloned3))
tries('program', lambda: subprocess.run(['unshare', '-Ur', 'true'], stderr=subprocess.DEVNULL).returncode == 0)
return managed`,
  shown: ['unshare', 'clone 10000000', 'clone3', 'program'],
  explained,
})

const mounts = programAttack({
  number: 25,
  title: 'setns, mount, remount, pivot_root, chroot and the new mount API',
  code: `
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
def mount(source, target, kind, flags, data=None):
    ctypes.set_errno(0)
    if libc.mount(source, target, kind, flags, data) != 0: raise OSError(ctypes.get_errno(), 'refused')
    return True
os.mkdir('place'); os.mkdir('place2')
REC, PRIVATE, BIND, REMOUNT = 0x4000, 0x40000, 0x1000, 0x20
def apart(action):
    """In a mount namespace of its own where one can be had, so that the control leaves nothing."""
    def inner():
        try:
            call('unshare', 0x20000)
            mount(b'none', b'/', None, REC | PRIVATE)
        except OSError:
            if given == 'outside': raise RuntimeError('no namespace of its own')
        return action()
    return alone(inner)
def joined():
    return call('setns', os.open('/proc/1/ns/mnt' if given != 'outside' else '/proc/self/ns/mnt', os.O_RDONLY), 0) == 0
tries('tmpfs', lambda: apart(lambda: mount(b'none', b'place', b'tmpfs', 0)))
tries('proc', lambda: apart(lambda: mount(b'none', b'place', b'proc', 0)))
tries('bind', lambda: apart(lambda: mount(b'/usr', b'place', None, BIND)))
tries('remount', lambda: apart(lambda: mount(b'none', b'/', None, REMOUNT | BIND)))
tries('propagate', lambda: apart(lambda: mount(b'none', b'/', None, REC | PRIVATE)))
tries('umount', lambda: apart(lambda: call('umount2', ctypes.c_char_p(b'/proc'), 2) == 0))
tries('chroot', lambda: apart(lambda: call('chroot', ctypes.c_char_p(b'place')) == 0))
def pivot():
    mount(b'none', b'place', b'tmpfs', 0)
    os.mkdir('place/old')
    return call('pivot_root', ctypes.c_char_p(b'place'), ctypes.c_char_p(b'place/old')) == 0
tries('pivot_root', lambda: apart(pivot))
tries('setns', lambda: apart(joined))
tries('fsopen', lambda: apart(lambda: call('fsopen', ctypes.c_char_p(b'tmpfs'), 0) >= 0))
tries('open_tree', lambda: apart(lambda: call('open_tree', -100, ctypes.c_char_p(b'/usr'), 1) >= 0))
tries('fspick', lambda: apart(lambda: call('fspick', -100, ctypes.c_char_p(b'/'), 0) >= 0))
return managed`,
  given: (_, place) => place,
  shown: ['tmpfs', 'proc', 'bind', 'remount', 'umount', 'chroot', 'pivot_root', 'setns', 'fsopen', 'open_tree'],
  explained,
})

/** A process that left its parents, its session and its name, and ignores every signal that can be ignored. */
const daemon = `
import signal
# The writing end is closed everywhere once the daemon runs as what it is to be.
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        os.closerange(0, writer)
        os.closerange(writer + 1, 64)
        os.execv('/usr/bin/sleep', ['sleep', given])
    os._exit(0)
os.wait()
os.close(writer)
os.read(reader, 1)
return managed`

/** A number of seconds that identifies the daemon. */
const oddTime = (): string => `20.${randomInt(2 ** 40)}`

const daemons = (time: string): number[] =>
  hostProcesses().flatMap(({ pid, command }) => (command[1] === time ? [pid] : []))

const escapedDaemon: Attack = {
  number: 29,
  title: 'a daemon that forks twice outlives the run',
  async attempt({ inside }) {
    const time = oddTime()
    managedBy(await inside(python(daemon, time)))
    return endOf(daemons(time).length > 0)
  },
  async control() {
    const time = oddTime()
    onHost(python(daemon, time))
    const left = daemons(time)
    for (const pid of left) process.kill(pid, 'SIGKILL')
    return endOf(left.length > 0)
  },
  explained,
}

/** 21–31: other processes, namespaces, privileges. */
export const processAttacks: readonly Attack[] = [
  ...[killAllProcesses, spyOnOthers, stopFirst, userNamespace, mounts, escapedDaemon, ...privilegeAttacks],
].sort((one, other) => one.number - other.number)
