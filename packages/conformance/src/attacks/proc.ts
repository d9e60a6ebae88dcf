import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Attack, AttackEnd, Excused, Ground } from './attack.ts'
import {
  asRoot,
  callingPython,
  canaryIn,
  endOf,
  hasOwnKernel,
  managedBy,
  onStage,
  programAttack,
  python,
  type Stage,
  wasmHas,
} from './programs.ts'

const explained = { wasm: wasmHas.noProc }

const otherProcesses = `
def look(name):
    pid, part = name.split('/')
    path = f'/proc/{pid}/{part}'
    if part == 'environ': return given['secret'] in open(path, 'rb').read().decode('latin1')
    if part == 'mem': return bool(os.open(path, os.O_RDONLY))
    return bool(os.listdir(path))
pids = [name for name in os.listdir('/proc') if name.isdigit() and name != str(os.getpid())]
for pid in pids: tries('environ', lambda: look(f'{pid}/environ'))
for part in ('root', 'mem', 'fd', 'cwd', 'map_files'): tries(part, lambda: look(f'{given["first"]}/{part}'))
return sorted(set(managed))`

const lookAtProcesses: Attack = {
  number: 13,
  title: 'root, environment, memory and descriptors of other processes through /proc',
  async attempt(ground) {
    let managed: readonly string[] = []
    const end = await beside(async (secret) => {
      managed = managedBy(await ground.inside(python(otherProcesses, { secret, first: 1 })))
      return managed.length > 0
    })
    if (end === 'succeeded') ground.note(`inside it managed ${managed.join(', ')}`)
    if (!hasOwnKernel(ground) || managed.join() !== 'fd') return end
    return forged(ground)
  },
  control: asRoot((ground) =>
    beside(async (secret) => {
      const managed = managedBy(await ground.outside(python(otherProcesses, { secret, first: process.pid })))
      return ['environ', 'root', 'fd', 'mem', 'cwd'].every((part) => managed.includes(part))
    }),
  ),
  explained,
}

/** Into every descriptor of the first process, its channel to the worker among them. */
const forging = `
for name in os.listdir('/proc/1/fd'):
    tries(name, lambda: os.write(os.open(f'/proc/1/fd/{name}', os.O_WRONLY | os.O_NONBLOCK), b'\\xff' * 64) > 0)
return managed`

/** gVisor lets a process open the descriptors of another one of its user; only the own sandbox may suffer from that. */
async function forged({ inside }: Ground): Promise<AttackEnd | Excused> {
  const broken = await inside(python(forging)).then(
    () => false,
    (error: unknown) => ToolError.is(error) && error.code === 'BACKEND_FAILED',
  )
  const next = managedBy(await inside(python("return ['started']")))
  if (!broken || next.length === 0) return 'succeeded'
  return {
    explained:
      "gVisor opens the descriptors of a user's other processes, those of the init included, though it is not dumpable. " +
      'The worker trusts no frame of the init: a forged one lies about the own run or ends it, and reaches no other sandbox.',
  }
}

/** While a process of the host has a secret in its environment. */
async function beside(look: (secret: string) => Promise<boolean>): Promise<AttackEnd> {
  const secret = `canary-${crypto.randomUUID()}`
  const bystander = spawn('sleep', ['30'], { env: { SECRET: secret }, stdio: 'ignore' })
  try {
    await started(bystander)
    return endOf(await look(secret))
  } finally {
    bystander.kill('SIGKILL')
  }
}

export function started(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
}

const kernelSettings = programAttack({
  number: 14,
  title: 'core_pattern, sysrq, uevent_helper, binfmt_misc and the like, opened for writing',
  code: `
paths = ['/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/kernel/uevent_helper', '/proc/sys/kernel/modprobe',
  '/proc/sys/fs/binfmt_misc/register', '/proc/sys/vm/overcommit_memory', '/proc/sys/kernel/randomize_va_space',
  '/proc/sys/kernel/hotplug', '/proc/sys/net/ipv4/ip_forward', '/proc/irq/default_smp_affinity']
for path in paths: tries(path, lambda: os.open(path, os.O_WRONLY) >= 0)
# What is there already is written back, so that the control changes nothing.
def rewrite(path):
    text = open(path).read()
    return open(path, 'w').write(text)
tries('rewritten', lambda: rewrite('/proc/sys/kernel/core_pattern'))
# Any process may open its own map; what counts is that it takes a line, which it does once, in a new namespace.
def mapped():
    line = b'0 %d 1' % os.getuid()
    try: call('unshare', 0x10000000)
    except OSError: pass
    return os.write(os.open('/proc/self/uid_map', os.O_WRONLY), line) > 0
tries('uid_map', lambda: alone(mapped))
return managed`,
  shown: ['/proc/sys/kernel/core_pattern', 'rewritten', 'uid_map'],
  explained,
})

const overwriting = `
import signal, subprocess
def overwrite(path):
    """As CVE-2019-5736: the file behind a running process is opened for writing once nothing runs from it."""
    if path == 'self': file = os.open('/proc/self/exe', os.O_RDONLY)
    elif path == 'init': file = os.open('/proc/1/exe', os.O_RDONLY)
    else:
        child = subprocess.Popen([path, '30'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        file = os.open(f'/proc/{child.pid}/exe', os.O_RDONLY)
        child.send_signal(signal.SIGKILL)
        child.wait()
    again = os.open(f'/proc/self/fd/{file}', os.O_WRONLY)
    return os.pwrite(again, b'#!/bin/false', 0)
def soften(path):
    os.chmod(path, 0o777)
    return True
for path in given:
    tries(path, lambda: overwrite(path))
    if path[0] == '/': tries('mode of ' + path, lambda: soften(path))
return managed`

const ownProgram: Attack = {
  number: 15,
  title: 'overwrite the program that runs a sandbox through /proc/self/exe',
  async attempt({ inside }) {
    const targets = ['self', 'init', '/usr/bin/sleep', '/gantry/init', '/gantry/node', '/gantry/drivers/python.py']
    return endOf(managedBy(await inside(python(overwriting, targets))).length > 0)
  },
  async control({ folder, outside }) {
    const copy = join(folder, 'sleep')
    await copyFile('/usr/bin/sleep', copy)
    managedBy(await outside(python(overwriting, [copy])))
    return endOf((await readFile(copy, 'latin1')).startsWith('#!/bin/false'))
  },
  explained,
}

const farDescriptor = 40

const throughDescriptors = `
found = []
for fd in range(3, 64):
    try: os.chdir(f'/proc/self/fd/{fd}')
    except OSError: continue
    for climb in ('', '../', '../../../../../../..'):
        try: found.append(open(climb + given).read())
        except OSError: pass
return found`

const leakedFolder = staged({
  number: 16,
  title: 'escape through a directory that the worker has open, as the working directory',
  stage: (ground) => ({ descriptors: { [farDescriptor]: ground.folder } }),
  code: throughDescriptors,
})

const leakedFile = staged({
  number: 17,
  title: 'read a file that the worker has open through an inherited descriptor',
  stage: (ground) => ({ descriptors: { [farDescriptor]: join(ground.folder, 'canary') } }),
  code: `
found = []
for fd in range(4, 256):
    try: found.append(os.pread(fd, 4096, 0).decode('latin1'))
    except OSError: pass
return found`,
})

interface StagedAttack {
  readonly number: number
  readonly title: string
  readonly code: string
  stage(ground: Ground): Stage
}

/** An attack on what a worker is started with; it reads the canary where that is handed on. */
function staged({ number, title, code, stage }: StagedAttack): Attack {
  const seen = (ground: Ground, kind?: string): AttackEnd => {
    const { path, text } = canaryIn(ground)
    const job = python(code, number === 16 ? path.slice(path.lastIndexOf('/') + 1) : path)
    return endOf(
      JSON.stringify(onStage(job, { ...stage(ground), ...(kind === undefined ? {} : { kind }) })).includes(text),
    )
  }
  return {
    number,
    title,
    attempt: async (ground) => seen(ground, ground.runtime.kind),
    // A child that inherits an open descriptor.
    control: async (ground) => seen(ground),
    explained: { wasm: 'No program is started: there are no descriptors to inherit.' },
  }
}

const kernelFiles = `
def some(path, wanted=lambda text: bool(text)):
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return wanted(os.read(file, 4096))
addresses = lambda text: any(line.split()[0].strip(b'0') for line in text.splitlines()[:20] if line)
tries('kallsyms', lambda: some('/proc/kallsyms', addresses))
tries('iomem', lambda: some('/proc/iomem', lambda text: any(line.strip()[:8].strip(b'0') for line in text.splitlines())))
for path in ('/dev/kmsg', '/proc/kmsg', '/proc/kcore', '/proc/timer_list', '/proc/sched_debug', '/proc/modules',
  '/proc/keys', '/proc/slabinfo', '/proc/vmallocinfo', '/sys/kernel/debug/sched/debug', '/proc/kpageflags'):
    tries(path, lambda: some(path))
# A kernel of the sandbox's own has boot options too, which tell nothing of the host's.
tries('/proc/cmdline', lambda: some('/proc/cmdline', lambda text: text.decode('latin1').strip() == given['options']))
tries('syslog', lambda: call('syslog', 3, ctypes.create_string_buffer(4096), 4096) > 0)
`

/** Watches the folder of programs, which is the host's own: every program started from there is seen. */
const watching = `
import fcntl, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, b'/usr/bin', 0x20)
tries('notes', lambda: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), 1026, 1) == 0)
print('on', flush=True)
seen, end = b'', time.monotonic() + 2
while watch >= 0 and given['program'].encode() not in seen and time.monotonic() < end:
    try: seen += os.read(watch, 65536)
    except BlockingIOError: time.sleep(0.02)
tries('watched', lambda: given['program'].encode() in seen)
return managed`

const kernelSecrets: Attack = {
  number: 18,
  title: 'read kernel addresses, the kernel log, boot options and the activity of other processes',
  async attempt({ inside, note }) {
    const managed = await tattle(inside)
    note(`inside it managed ${managed.join(', ')}`)
    return endOf(managed.length > 0)
  },
  control: asRoot(async ({ outside }) => {
    const managed = await tattle(outside)
    const shown = ['kallsyms', 'iomem', '/dev/kmsg', '/proc/timer_list', '/proc/cmdline', 'syslog', 'watched', 'notes']
    return endOf(shown.every((name) => managed.includes(name)))
  }),
  explained,
}

/** What a program finds out; the host runs a unique one when it is ready to watch. */
async function tattle(run: Ground['inside']): Promise<readonly string[]> {
  const onOutput = (): void => void execFileSync('/usr/bin/cksum', ['/dev/null'])
  const given = { program: 'cksum', options: readFileSync('/proc/cmdline', 'latin1').trim() }
  return managedBy(await run(callingPython(`${kernelFiles}${watching}`, given, { onOutput })))
}

const ownLimits = programAttack({
  number: 19,
  title: 'reach the control groups, to change its own limits and the release agent',
  code: `
import glob
# A mount that another one covers is in the list all the same; nothing in it can be reached.
for line in open('/proc/self/mounts').read().splitlines():
    _, place, kind = line.split()[:3]
    if kind.startswith('cgroup'): tries('mounted', lambda: bool(os.listdir(place)))
for name in ('memory.limit_in_bytes', 'memory.max', 'pids.max', 'cpu.max', 'cpu.cfs_quota_us', 'release_agent', 'cgroup.procs'):
    for path in glob.glob('/sys/fs/cgroup/' + name) + glob.glob('/sys/fs/cgroup/*/' + name) + glob.glob('/sys/fs/cgroup/*/*/' + name):
        tries(name, lambda: os.open(path, os.O_WRONLY) >= 0)
return sorted(set(managed))`,
  shown: ['mounted', 'cgroup.procs'],
  explained,
})

const lowering = `
def lowered(pid):
    path = f'/proc/{pid}/oom_score_adj'
    before = int(open(path).read())
    for value in ('-1000', '-1', '0'):
        try: open(path, 'w').write(value)
        except OSError: pass
    after = int(open(path).read())
    return str(after) if after < before else None
return [value for value in map(lowered, given) if value is not None]`

const lessLikelyToDie: Attack = {
  number: 20,
  title: 'lower its own oom_score_adj, so that the worker is killed first',
  async attempt({ inside, note }) {
    const values = managedBy(await inside(python(lowering, ['self', '1']))).map(Number)
    if (values.length === 0) return 'blocked'
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))
    note(`inside it was lowered to ${values.join(', ')}; the worker has ${own}`)
    if (Math.min(...values) < own || hasCapability(capSysResource)) return 'succeeded'
    return {
      explained:
        'A sandbox is started with 1000, so that it dies before the worker, and it can go back to what its engine has, never ' +
        'below. The kernel makes the 1000 a minimum only when the engine has CAP_SYS_RESOURCE, which nothing on this machine has.',
    }
  },
  // Of the first process of the host nothing is changed.
  control: asRoot(async ({ outside }) => endOf(managedBy(await outside(python(lowering, ['self']))).length > 0)),
  explained,
}

const capSysResource = 24

/** Whether the first process of this machine, and so any at all, can have a capability. */
function hasCapability(number: number): boolean {
  const bounds = /^CapBnd:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/1/status', 'utf8'))?.[1] ?? 'ffffffffffffffff'
  return (BigInt(`0x${bounds}`) & (1n << BigInt(number))) !== 0n
}

/** 13–20: reads and writes through /proc and /sys. */
export const procAttacks: readonly Attack[] = [
  ...[lookAtProcesses, kernelSettings, ownProgram, leakedFolder, leakedFile, kernelSecrets, ownLimits, lessLikelyToDie],
]
