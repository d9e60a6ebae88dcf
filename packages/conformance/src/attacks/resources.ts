import { readFileSync } from 'node:fs'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { type Attack, type AttackEnd, attackLimits, type Ground, inEveryContainer, whileRunning } from './attack.ts'
import {
  callingPython,
  endOf,
  isRoot,
  javascript,
  lastNumber,
  managedBy,
  onHost,
  python,
  tooMuchIn,
  wasmHas,
} from './programs.ts'
import { heldMemory } from './resources-memory.ts'

const descriptors = `
import resource, select
try: resource.setrlimit(resource.RLIMIT_NOFILE, (1_000_000, 1_000_000))
except (OSError, ValueError):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def many(make):
    made = []
    try:
        while len(made) < 4_000: made.append(make())
    except OSError: pass
    for one in made: os.close(one) if isinstance(one, int) else one.close()
    return len(made) > 1_024
tries('files', lambda: many(lambda: os.open('/dev/null', os.O_RDONLY)))
tries('events', lambda: many(lambda: os.eventfd(0)))
tries('epolls', lambda: many(select.epoll))
tries('memory files', lambda: many(lambda: os.memfd_create('one')))
return managed`

/**
 * What the kernel counts by uid. A program manages a quota when it gets a 64th of it, which a few dozen
 * programs at once could make the whole of; `given.limits` has the quotas of the host, and `own` says that the uid is the sandbox's own.
 */
const userQuotas = `
import fcntl, select, signal
def epolls():
    if given['own']: return False
    # Each file is registered under every number that it can have, so that few descriptors make many registrations.
    made, first, numbers = 0, os.eventfd(0), range(100, 600)
    events = [os.eventfd(0) for _ in range(40)]
    polls = [select.epoll() for _ in range(40)]
    for number in numbers:
        for event in events:
            os.dup2(event, number)
            for poll in polls:
                poll.register(number, select.EPOLLIN)
                made += 1
                if made > given['watches'] // 64: return True
        os.close(number)
    return False
def instances():
    made = []
    while len(made) <= given['instances'] // 64: made.append(call('inotify_init1', 0))
    for one in made: os.close(one)
    return True
def groups():
    os.close(call('fanotify_init', 0x200, 0))
    return True
def pipes():
    one, other = os.pipe()
    return fcntl.fcntl(other, 1031, 1 << 20) >= 1 << 20
def queues():
    name = b'gantry-attack-%d' % os.getpid()
    os.close(call('mq_open', name, os.O_CREAT | os.O_RDWR, 0o600, None))
    call('mq_unlink', name)
    return True
def keys():
    key = call('add_key', b'user', b'gantry-attack-%d' % os.getpid(), b'x', 1, -2)
    call('keyctl', 3, key)
    return True
def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    details = (ctypes.c_int * 32)(40, 0, -1)
    for _ in range(given['signals'] // 64): call('rt_sigqueueinfo', os.getpid(), 40, ctypes.byref(details))
    return True
def locked():
    shared = call('shmget', 0, 4096, 0o1600)
    try: call('shmctl', shared, 11, 0)
    finally: call('shmctl', shared, 0, 0)
    return True
def namespaces(): return call('unshare', 0x10000000) == 0
tries('epoll watches', epolls)
tries('inotify instances', instances)
tries('fanotify groups', groups)
tries('pipe pages', pipes)
tries('message queues', queues)
tries('keys', keys)
tries('pending signals', lambda: alone(signals))
tries('locked memory', locked)
tries('user namespaces', lambda: alone(namespaces))
return managed`

/** Quotas that exist on every machine; keys, queues and fanotify are missing on some, or for root alone. */
const shown = ['epoll watches', 'inotify instances', 'pipe pages', 'pending signals', 'locked memory']

function quotasOfHost(): { readonly watches: number; readonly instances: number; readonly signals: number } {
  const setting = (path: string): number => Number(readFileSync(`/proc/sys/${path}`, 'utf8'))
  const signals = /^Max pending signals\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return {
    watches: setting('fs/epoll/max_user_watches'),
    instances: setting('fs/inotify/max_user_instances'),
    signals: Math.min(Number(signals ?? 100_000), 100_000),
  }
}

/** Registers with epoll and watches a file, as this process does all the time. */
const stillThere = `
import select
one = select.epoll()
one.register(os.eventfd(0), select.EPOLLIN)
return ['registered'] if libc.inotify_init() >= 0 else []`

/** It also has as many descriptors in transit as it can, which are counted by user too. */
const holding = `${userQuotas.replace('return managed', '')}
import array, socket, time
ways = []
try:
    while True:
        way = socket.socketpair()
        ways.append(way)
        for end in way:
            end.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 200))])
except OSError: pass
print(json.dumps(managed), flush=True)
time.sleep(15)`

export const manyDescriptors: Attack = {
  number: 58,
  title: 'exhaust descriptors of every kind, and the resources that the kernel counts per user',
  async attempt({ inside, runtime, note }) {
    if (managedBy(await inside(python(descriptors))).length > 0) return 'succeeded'
    const given = { ...quotasOfHost(), own: isRoot }
    const [managed, left, beside] = await whileRunning(runtime, callingPython(holding, given), async (said) => [
      said.trim(),
      JSON.stringify(onHost(callingPython(stillThere))),
      managedBy(await inside(python("return ['started']"))),
    ])
    note(`inside it managed ${managed}, outside there was ${left} left, and another sandbox ${beside}`)
    return endOf(managed !== '[]' || left !== '["registered"]' || beside.length === 0)
  },
  async control({ note }) {
    const files = onHost(python(descriptors))
    const quotas = onHost(callingPython(userQuotas, { ...quotasOfHost(), own: false }))
    note(`outside it managed ${JSON.stringify([files, quotas])}`)
    const reached = [files, quotas].flat()
    const wanted = ['files', 'events', 'epolls', 'memory files', ...shown]
    return endOf(wanted.every((name) => reached.includes(name)))
  },
  explained: { wasm: wasmHas.noCalls },
}

const mebi = 1024 * 1024

/** A program that consumes more and more of a resource and prints the amount, one number per line. */
interface Bomb {
  readonly number: number
  readonly title: string
  readonly jobs: (kind: string) => readonly SandboxJob[]
  readonly narrow: Partial<SandboxLimits>
  /** Limits of the control, which must exceed the bound of the narrow limits. */
  readonly wide: Partial<SandboxLimits>
  /** More than this means that the limit did not hold. */
  readonly bound: number
  /** A measure other than the last printed number. */
  readonly measure?: (outcome: Outcome) => number
  readonly explained?: Attack['explained']
}

function bombAttack({ number, title, jobs, narrow, wide, bound, measure = lastNumber, explained }: Bomb): Attack {
  const most = async (run: Ground['inside'], ground: Ground, limits: Partial<SandboxLimits>): Promise<number[]> => {
    const reached: number[] = []
    for (const job of jobs(ground.kind))
      reached.push(measure(await run(job, { limits: { ...attackLimits, ...limits } })))
    ground.note(`reached ${reached.join(', ')} of at most ${bound}`)
    return reached
  }
  return {
    number,
    title,
    attempt: async (ground) => endOf((await most(ground.inside, ground, narrow)).some((reached) => reached > bound)),
    control: async (ground) => endOf((await most(ground.outside, ground, wide)).every((reached) => reached > bound)),
    ...(explained === undefined ? {} : { explained }),
  }
}

/** A run that no limit ended counts as spinning without end. */
function spun({ usage, hit }: Outcome): number {
  return hit === undefined ? Number.POSITIVE_INFINITY : (usage.cpuMs ?? usage.wallMs)
}

const spinning = bombAttack({
  number: 55,
  title: 'spin on every CPU, in processes and threads',
  jobs: (kind) =>
    kind === 'wasm'
      ? [javascript('while (true) {}'), python('while True: pass')]
      : [
          python(
            'import threading\nfor _ in range(6):\n    if os.fork() == 0: break\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()\nspin()',
          ),
        ],
  narrow: { cpuMs: 500, wallMs: 4_000 },
  // On a busy machine two seconds of processor time take many seconds.
  wide: { cpuMs: 2_500, wallMs: 20_000 },
  bound: 1_500,
  measure: spun,
})

const forking = bombAttack({
  number: 57,
  title: 'a fork bomb',
  jobs: () => [
    python(`
import time
for count in range(1, 61):
    if os.fork() == 0: time.sleep(10); os._exit(0)
    print(count, flush=True)
    # What was written right before the kill may be lost, and no output at all would count as a broken attack.
    if count == 10: time.sleep(0.5)
time.sleep(0.2)`),
  ],
  narrow: { pids: 20 },
  wide: { pids: 100 },
  bound: 20,
  explained: { wasm: wasmHas.noProcesses },
})

const filling = `
count = 0
try:
    for number in range(40):
        file = os.open(f'fill-{number}', os.O_CREAT | os.O_WRONLY)
        for _ in range(16): count += os.write(file, bytes(65536))
except OSError: pass
print(count, flush=True)`

const filledDisk = bombAttack({
  number: 59,
  title: 'fill the workspace with many files',
  jobs: () => [python(filling)],
  narrow: { diskBytes: 8 * mebi },
  wide: { diskBytes: 64 * mebi, memoryBytes: 512 * mebi },
  bound: 8 * mebi,
})

const flooding = bombAttack({
  number: 60,
  title: 'endless output',
  jobs: (kind) => [
    python("while True: sys.stdout.write('x' * 65536 + '\\n')"),
    ...(kind === 'wasm' ? [javascript("while (true) console.log('x'.repeat(65536))")] : []),
  ],
  narrow: { stdoutBytes: 100_000 },
  wide: { stdoutBytes: 4_000_000 },
  bound: 100_000,
  measure: ({ stdout, hit }) => (hit === 'stdoutBytes' ? stdout.bytes.length : Number.POSITIVE_INFINITY),
})

/** The kernel remembers names that do not exist; each costs it half a kilobyte that no process has. */
const missingNames = `
import random
stem = '/usr/' + 'x' * 230
base = random.getrandbits(40)
for number in range(250_000):
    if number % 5_000 == 0: print(number, flush=True)
    try: os.stat(f'{stem}{base + number}')
    except FileNotFoundError: pass`

/** Each name takes half a kilobyte. */
const mostNames = 120_000

const growingSlab: Attack = {
  number: 61,
  title: 'grow the dentry cache of the kernel without bound',
  async attempt(ground) {
    const { outcome, names } = await remembered(ground, ground.inside, 32 * mebi, 3)
    return names > mostNames ? tooMuchIn(outcome) : 'blocked'
  },
  control: async (ground) => endOf((await remembered(ground, ground.outside, 512 * mebi, 1)).names > mostNames),
  explained: { wasm: wasmHas.noCalls },
}

/** Other processes of the machine add names too, so the run with the fewest counts: an attack adds its names each time. */
async function remembered({ note }: Ground, run: Ground['inside'], memoryBytes: number, runs: number) {
  let fewest: { readonly outcome: Outcome; readonly names: number } | undefined
  for (let turn = 0; turn < runs; turn++) {
    const before = namesInKernel()
    const outcome = await run(python(missingNames), { limits: { ...attackLimits, memoryBytes } })
    const names = namesInKernel() - before
    lastNumber(outcome)
    note(`the kernel remembers ${names} names more`)
    if (fewest === undefined || names < fewest.names) fewest = { outcome, names }
    if (names <= mostNames) break
  }
  if (fewest === undefined) throw new RangeError('It needs at least one run.')
  return fewest
}

function namesInKernel(): number {
  return Number(readFileSync('/proc/sys/fs/dentry-state', 'utf8').split('\t')[0])
}

/** Nothing that could be bombed is in a runtime. */
function absent(number: number, title: string, reason: string): Attack {
  const attempt = (): Promise<AttackEnd> => Promise.reject(new Error('There is nothing to attack.'))
  const explained = { ...inEveryContainer(reason), process: reason, remote: reason, temporal: reason, wasm: reason }
  return { number, title, attempt, control: 'there is nothing to attack', explained }
}

const unpacking = [
  absent(
    62,
    'archive bombs',
    'A runtime unpacks nothing: files are copied in and out unchanged, counted byte by byte.',
  ),
  absent(
    63,
    'compressed request bodies',
    'A runtime accepts no request bodies; egress limits the size of decoded responses.',
  ),
  absent(
    64,
    'image and XML bombs',
    'Gantry parses no images or XML; a program that does is bounded by its own limits.',
  ),
]

/** 55–64: more than was given. */
export const resourceAttacks: readonly Attack[] = [
  ...[spinning, heldMemory, forking, manyDescriptors, filledDisk, flooding, growingSlab, ...unpacking],
]
