import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { copyFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Attack, AttackEnd, Ground } from './attack.ts'
import { asRoot, callingPython, canaryIn, endOf, managedBy, programAttack, python, wasmHas } from './programs.ts'
import { onStage, type Stage } from './staged.ts'

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
  attempt: (ground) =>
    beside(async (secret) => managedBy(await ground.inside(python(otherProcesses, { secret, first: 1 }))).length > 0),
  control: asRoot((ground) =>
    beside(async (secret) => {
      const managed = managedBy(await ground.outside(python(otherProcesses, { secret, first: process.pid })))
      return ['environ', 'root', 'fd', 'mem', 'cwd'].every((part) => managed.includes(part))
    }),
  ),
  explained,
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
  '/proc/sys/kernel/hotplug', '/proc/sys/net/ipv4/ip_forward', '/proc/self/uid_map', '/proc/irq/default_smp_affinity']
for path in paths: tries(path, lambda: os.open(path, os.O_WRONLY) >= 0)
# What is there already is written back, so that the control changes nothing.
def rewrite(path):
    text = open(path).read()
    return open(path, 'w').write(text)
tries('rewritten', lambda: rewrite('/proc/sys/kernel/core_pattern'))
return managed`,
  shown: ['/proc/sys/kernel/core_pattern', 'rewritten'],
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
  title: 'the program that runs a sandbox is overwritten through /proc/self/exe',
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
  title: 'out of the sandbox by a folder that the worker has open, as the current folder',
  stage: (ground) => ({ descriptors: { [farDescriptor]: ground.folder } }),
  code: throughDescriptors,
})

const leakedFile = staged({
  number: 17,
  title: 'a file that the worker has open is read through an inherited descriptor',
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
    // A child that nobody closed the descriptor for.
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
for path in ('/dev/kmsg', '/proc/kmsg', '/proc/kcore', '/proc/timer_list', '/proc/sched_debug', '/proc/modules', '/proc/cmdline',
  '/proc/keys', '/proc/slabinfo', '/proc/vmallocinfo', '/sys/kernel/debug/sched/debug', '/proc/kpageflags'):
    tries(path, lambda: some(path))
tries('syslog', lambda: call('syslog', 3, ctypes.create_string_buffer(4096), 4096) > 0)
`

/** Watches the folder of programs, which is the host's own: whoever runs one there is seen. */
const watching = `
import fcntl, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, b'/usr/bin', 0x20)
tries('notes', lambda: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), 1026, 1) == 0)
print('on', flush=True)
seen, end = b'', time.monotonic() + 2
while watch >= 0 and given.encode() not in seen and time.monotonic() < end:
    try: seen += os.read(watch, 65536)
    except BlockingIOError: time.sleep(0.02)
tries('watched', lambda: given.encode() in seen)
return managed`

const kernelSecrets: Attack = {
  number: 18,
  title: 'addresses and the log of the kernel, boot options, and what other processes do',
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

/** What a program finds out; the host runs one that nobody else does when it is ready to watch. */
async function tattle(run: Ground['inside']): Promise<readonly string[]> {
  const onOutput = (): void => void execFileSync('/usr/bin/cksum', ['/dev/null'])
  return managedBy(await run(callingPython(`${kernelFiles}${watching}`, 'cksum', { onOutput })))
}

const ownLimits = programAttack({
  number: 19,
  title: 'control groups are seen, and with them the own limits and the release agent',
  code: `
import glob
mounts = open('/proc/self/mounts').read().split('\\n')
tries('mounted', lambda: any(line.split()[2].startswith('cgroup') for line in mounts if line))
for name in ('memory.limit_in_bytes', 'memory.max', 'pids.max', 'cpu.max', 'cpu.cfs_quota_us', 'release_agent', 'cgroup.procs'):
    for path in glob.glob('/sys/fs/cgroup/' + name) + glob.glob('/sys/fs/cgroup/*/' + name) + glob.glob('/sys/fs/cgroup/*/*/' + name):
        tries(name, lambda: os.open(path, os.O_WRONLY) >= 0)
return sorted(set(managed))`,
  shown: ['mounted', 'cgroup.procs'],
  explained,
})

const lessLikelyToDie = programAttack({
  number: 20,
  title: 'the own oom_score_adj is lowered, so that the worker dies first',
  code: `
def lower(pid):
    path = f'/proc/{pid}/oom_score_adj'
    before = int(open(path).read())
    for value in ('-1000', '-1', '0'):
        try: open(path, 'w').write(value)
        except OSError: pass
    return int(open(path).read()) < before
for pid in given: tries(pid, lambda: lower(pid))
return managed`,
  // Of the first process of the host nothing is changed.
  given: (_, place) => (place === 'inside' ? ['self', '1'] : ['self']),
  explained,
})

/** 13–20: what /proc and /sys tell and take. */
export const procAttacks: readonly Attack[] = [
  ...[lookAtProcesses, kernelSettings, ownProgram, leakedFolder, leakedFile, kernelSecrets, ownLimits, lessLikelyToDie],
]
