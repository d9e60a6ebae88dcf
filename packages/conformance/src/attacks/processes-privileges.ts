import { globSync, readFileSync } from 'node:fs'
import { isObject } from '@gantry/contract/internal/json'
import { type Attack, whileRunning } from './attack.ts'
import { hostProcesses } from './host.ts'
import {
  asRoot,
  callingPython,
  endOf,
  hasOwnKernel,
  managedBy,
  onHost,
  onStage,
  python,
  stranger,
  wasmHas,
} from './programs.ts'

const explained = { wasm: wasmHas.noProcesses }

/** Starts setuid root programs that wait for input, and reads their user ids. */
const borrowing = `
import shutil, subprocess, time
def effective(command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(40):
            status = dict(line.split(':', 1) for line in open(f'/proc/{child.pid}/status').read().splitlines() if ':' in line)
            if 'Uid' not in status or child.poll() is not None: return False
            if status['Name'].strip() == os.path.basename(command[0]) and status['Uid'].split()[1] == '0': return True
            time.sleep(0.005)
        return False
    finally:
        child.kill()
        child.wait()
for name in ('su', 'passwd', 'newgrp', 'chsh', 'gpasswd'):
    path = shutil.which(name)
    if path and os.stat(path).st_mode & 0o4000: tries(name, lambda: effective([path]))
def own_copy():
    """A copy of the own, given the bit and another owner."""
    shutil.copy('/usr/bin/id', 'id')
    os.chown('id', 0, 0)
    os.chmod('id', 0o6755)
    return subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip() == '0'
tries('copy', own_copy)
tries('capability', lambda: os.setxattr('/usr/bin/sleep', 'security.capability', b'\\x01\\0\\0\\2' + b'\\xff' * 16) is None)
for action in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setresgid(0, 0, 0)): tries('become', lambda: action() is None)
return managed`

const setuidPrograms: Attack = {
  number: 26,
  title: 'setuid root programs, file capabilities and setuid(0)',
  attempt: async ({ inside }) => endOf(managedBy(await inside(python(borrowing))).length > 0),
  // As a user who is neither root nor in a sandbox.
  control: asRoot(async () => {
    const managed = onHost(python(`os.chdir('/tmp')\n${borrowing.replace("tries('copy', own_copy)", '')}`), {
      uid: stranger,
    })
    return endOf(Array.isArray(managed) && managed.some((name) => name !== 'become'))
  }),
  explained,
}

/** A limit of 0 keeps files away and does not keep the kernel from handing the memory to a program, which 1 does. */
const crashing = `
import resource, signal
os.chdir(given)
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
for size in (hard, 1, 0):
    child = os.fork()
    if child == 0:
        try: resource.setrlimit(resource.RLIMIT_CORE, (size, hard))
        except (OSError, ValueError): pass
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    status = os.waitpid(child, 0)[1]
    tries(f'dumped with {size}', lambda: os.WCOREDUMP(status))
tries('file', lambda: any(name.startswith('core') for name in os.listdir('.')))
return managed`

const coreDump: Attack = {
  number: 27,
  title: 'a core dump leaves the memory of the program, with its secrets, on disk',
  attempt: async ({ inside }) => endOf(managedBy(await inside(python(crashing, '.'))).length > 0),
  control: async ({ folder }) => endOf(JSON.stringify(onHost(python(crashing, folder))).includes('dumped')),
  explained,
}

const typing = `
import fcntl
STI, LINUX = 0x5412, 0x541c
for path in ('/dev/tty', '/dev/console', '/dev/pts/0', '/dev/ptmx', '/proc/self/fd/0', '/proc/self/fd/1', '/proc/self/fd/2'):
    def type_into(path):
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        fcntl.ioctl(terminal, STI, b'!')
        return True
    tries(path, lambda: type_into(path))
def own_terminal():
    leader, follower = os.openpty()
    os.setsid()
    fcntl.ioctl(follower, 0x540e, 0)
    fcntl.ioctl(follower, STI, b'?')
    return True
tries('own', lambda: alone(own_terminal))
return managed`

/** Puts the worker into a terminal, and reads what was typed into it by the time the worker has ended. */
const terminal = `
import json, pty, select, subprocess, tty
out = os.dup(1)
pid, leader = pty.fork()
if pid == 0:
    tty.setraw(0)
    worker = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    typed = os.read(0, 100).decode() if select.select([0], [], [], 0)[0] else ''
    error = '' if worker.returncode == 0 else worker.stderr.decode()
    os.write(out, json.dumps({'typed': typed, 'managed': worker.stdout.decode()[-2000:], 'error': error}).encode())
    os._exit(0)
os.waitpid(pid, 0)
os._exit(0)`

interface Typed {
  readonly typed: string
  readonly error: string
  readonly managed: string
}

function isTyped(value: unknown): value is Typed {
  return isObject(value) && ['typed', 'error', 'managed'].every((name) => typeof value[name] === 'string')
}

function typed(kind?: string): Typed {
  const found = onStage(python(typing), {
    before: terminal,
    ...(kind === undefined ? {} : { kind }),
  })
  if (!isTyped(found)) throw new Error('The worker returned something else.')
  if (found.error !== '') throw new Error(`The worker failed: ${found.error}`)
  return found
}

const typeIntoTerminal: Attack = {
  number: 28,
  title: "TIOCSTI types into the worker's terminal",
  async attempt({ runtime }) {
    const { typed: text, managed } = typed(runtime.kind)
    return endOf(text !== '' || managed.trim() !== '[]')
  },
  control: asRoot(async () => endOf(typed().typed.includes('!'))),
  explained,
}

const hurrying = `
import struct
def scheduled(policy):
    os.sched_setscheduler(0, policy, os.sched_param(1))
    return os.sched_getscheduler(0) == policy
def by_attributes(policy):
    attributes = struct.pack('IIQiIQQQ', 48, policy, 0, 0, 1 if policy < 3 else 0, 1_000_000, 10_000_000, 10_000_000)
    return call('sched_setattr', 0, attributes, 0) == 0
for name, policy in (('fifo', 1), ('round robin', 2)):
    tries(name, lambda: alone(lambda: scheduled(policy)))
    tries(name + ' by attributes', lambda: alone(lambda: by_attributes(policy)))
tries('deadline', lambda: alone(lambda: by_attributes(6)))
def nicer():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    return os.getpriority(os.PRIO_PROCESS, 0) < before
tries('nice', lambda: alone(nicer))
tries('disk', lambda: alone(lambda: call('ioprio_set', 1, 0, (1 << 13) | 0) == 0))
return managed`

const priorities: Attack = {
  number: 30,
  title: 'real-time scheduling, a lower nice value, a higher I/O priority',
  async attempt({ inside, runtime }) {
    if (!hasOwnKernel({ runtime })) return endOf(managedBy(await inside(callingPython(hurrying))).length > 0)
    // What a kernel of the sandbox's own takes down for a program counts only where it changes a process of the host.
    const before = new Set(hurried())
    const waits = `${hurrying.replace('return managed', '')}\nos.nice(-20)\nprint('on', flush=True)\nimport time\ntime.sleep(15)`
    return whileRunning(runtime, callingPython(waits), () => endOf(hurried().some((pid) => !before.has(pid))))
  },
  // Out of the control groups too, which give no real time either.
  control: asRoot(async () => {
    const managed = onHost(callingPython(hurrying))
    const shown = ['fifo', 'fifo by attributes', 'nice', 'disk']
    return endOf(Array.isArray(managed) && shown.every((name) => managed.includes(name)))
  }),
  explained,
}

/** Programs of the host that run before others: with a nice value below 0, or in real time. */
function hurried(): number[] {
  return hostProcesses().flatMap(({ pid, command }) => {
    // Threads of the kernel have no command.
    if (command.length === 0) return []
    const stats = globSync(`/proc/${pid}/task/*/stat`).flatMap((path) => {
      try {
        const stat = readFileSync(path, 'latin1')
        return [stat.slice(stat.lastIndexOf(')') + 2).split(' ')]
      } catch {
        // It ended while we looked.
        return []
      }
    })
    return stats.some((fields) => Number(fields[16]) < 0 || Number(fields[38]) !== 0) ? [pid] : []
  })
}

/** clone3 passes its flags behind a pointer, which no filter sees; with ENOSYS programs fall back to clone. */
const hiddenFlags: Attack = {
  number: 31,
  title: 'clone3 with flags that a filter cannot see; programs get ENOSYS and fall back to clone',
  async attempt({ inside }) {
    const found = managedBy(await inside(callingPython(cloning)))
    return endOf(found.some((name) => name !== 'no such call' && name !== 'thread') || found.length !== 2)
  },
  control: asRoot(async ({ outside }) => endOf(managedBy(await outside(callingPython(cloning))).includes('namespace'))),
  explained,
}

const cloning = `
import struct, threading
own = os.readlink('/proc/self/ns/user')
def cloned(flags):
    args = struct.pack('8Q', flags, 0, 0, 0, 17, 0, 0, 0)
    pid = call('clone3', args, len(args))
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    return True
tries('namespace', lambda: alone(lambda: cloned(0x10000000)))
tries('plain', lambda: alone(lambda: cloned(0)))
tries('no such call', lambda: errno_of('clone3', 0, 0) == 38)
ran = []
thread = threading.Thread(target=lambda: ran.append(1))
thread.start()
thread.join()
tries('thread', lambda: bool(ran))
return managed`

/** Of 21–31 those that are after more rights. */
export const privilegeAttacks: readonly Attack[] = [setuidPrograms, coreDump, typeIntoTerminal, priorities, hiddenFlags]
