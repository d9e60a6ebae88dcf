import { readFileSync } from 'node:fs'
import type { Attack } from './attack.ts'
import { callingPython, endOf, isRoot, managedBy, onHost, python, wasmHas } from './programs.ts'
import { whileRunning } from './running.ts'

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

/** Those that everybody has on every machine; keys, queues and fanotify are not everywhere, or for root alone. */
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

/** Besides, it has as many descriptors on their way as it can, which are counted by user too. */
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
  title: 'descriptors of every kind, more than anybody needs, and whatever the kernel counts by user',
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
