import { chmodSync } from 'node:fs'
import { connect, createServer, type ListenOptions, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { usualLimits } from '@gantry/sandbox/internal/egress-proxy/connection'
import { type Attack, type AttackEnd, attackLimits, type Ground } from './attack.ts'
import { endOf, managedBy, python } from './programs.ts'

const explained = {
  remote: 'A program on another host gets no network: such a sandbox is refused.',
  temporal: 'A program on a Temporal worker gets no network: such a sandbox is refused.',
  wasm: 'A WebAssembly instance reaches no network, with or without a proxy.',
}

/** Two servers that the host may reach; a sandbox may reach only those that its network names. */
interface Scene {
  readonly allowed: Listener
  readonly victim: Listener
  spec(...servers: readonly Listener[]): Pick<SandboxSpec, 'network' | 'dial'>
}

async function scene(play: (scene: Scene) => Promise<AttackEnd>): Promise<AttackEnd> {
  const greet = (text: string) => (socket: Socket) => {
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`
    socket.once('data', () => socket.end(answer))
  }
  const local = { host: '127.0.0.1', port: 0 }
  const [allowed, victim] = [await listenOnHost(local, greet('allowed')), await listenOnHost(local, greet('victim'))]
  const originOf = ({ port }: Listener): string => `http://127.0.0.1:${port}`
  const allow = [allowed, victim].map((server) => ({ origin: originOf(server), private: true as const }))
  const egress = createEgressGuard({ allow })
  try {
    const spec: Scene['spec'] = (...servers) => ({
      network: { allow: servers.map(originOf) },
      dial: { egress, owner: 'attack' },
    })
    return await play({ allowed, victim, spec })
  } finally {
    await Promise.all([egress.close(), allowed.close(), victim.close()])
  }
}

/** Asks the proxy for the victim in every way that parsers have been known to disagree about. */
const askingAround = `
import socket, struct
a, v = f"127.0.0.1:{given['allowed']}", f"127.0.0.1:{given['victim']}"
get = lambda target, host, more='': f'GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n{more}\\r\\n'
requests = {
  'plain': get(f'http://{v}/', v),
  'other host header': get(f'http://{v}/', a),
  'host only': get('/', v),
  'allowed with host of the victim': get(f'http://{a}/', v),
  'user': get(f'http://{a}@{v}/', v),
  'fragment': get(f'http://{v}#@{a}/', a),
  'backslash': get(f'http://{a}\\\\@{v}/', a),
  'zero': get(f"http://127.0.0.1\\0.{a}:{given['victim']}/", a),
  'mapped': get(f"http://[::ffff:127.0.0.1]:{given['victim']}/", v),
  'decimal': get(f"http://2130706433:{given['victim']}/", v),
  'connect': f'CONNECT {v} HTTP/1.1\\r\\nHost: {v}\\r\\n\\r\\n' + get('/', v),
  'connect with another host': f'CONNECT {v} HTTP/1.1\\r\\nHost: {a}\\r\\n\\r\\n' + get('/', v),
  'connect to a port': f'CONNECT 127.0.0.1:22 HTTP/1.1\\r\\nHost: 127.0.0.1:22\\r\\n\\r\\n',
  'two at once': get(f'http://{a}/', a) + get(f'http://{v}/', v),
  'smuggled': get(f'http://{a}/', a, 'Content-Length: 0\\r\\nTransfer-Encoding: chunked\\r\\n') + '0\\r\\n\\r\\n' + get(f'http://{v}/', v),
  'upgrade': get(f'http://{v}/', v, 'Connection: Upgrade\\r\\nUpgrade: websocket\\r\\n'),
  'http/2': 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n',
  'socks': b'\\x05\\x01\\0\\x05\\x01\\0\\x01\\x7f\\0\\0\\x01' + struct.pack('>H', given['victim']),
  'socks 4': b'\\x04\\x01' + struct.pack('>H', given['victim']) + b'\\x7f\\0\\0\\x01\\0',
}
def ask(family, address, request):
    one = socket.socket(family)
    one.settimeout(3)
    one.connect(address)
    one.sendall(request if isinstance(request, bytes) else request.encode('latin1'))
    answer = b''
    while piece := one.recv(65536): answer += piece
    return answer
for name, request in requests.items():
    for family, address in ((socket.AF_INET, ('127.0.0.1', 3128)), (socket.AF_UNIX, '/gantry/egress/proxy.sock')):
        tries(name, lambda: b'victim' in ask(family, address, request))
tries('past the proxy', lambda: b'victim' in ask(socket.AF_INET, ('127.0.0.1', given['victim']), requests['plain']))
tries('allowed', lambda: b'allowed' in ask(socket.AF_INET, ('127.0.0.1', 3128), get(f'http://{a}/', a)))
return sorted(set(managed))`

const aroundTheProxy: Attack = {
  number: 51,
  title: 'bypass the proxy: other hosts, ports and names, CONNECT, upgrades, request smuggling',
  attempt: (ground) =>
    scene(async ({ allowed, victim, spec }) => {
      const managed = await asked(ground, { allowed, victim }, spec(allowed))
      if (!managed.includes('allowed')) throw new Error('The way that is open could not be used either.')
      return endOf(victim.connections() > 0 || managed.length > 1)
    }),
  // The same program where the victim may be reached.
  control: (ground) =>
    scene(async ({ allowed, victim, spec }) => {
      const managed = await asked(ground, { allowed, victim }, spec(allowed, victim))
      return endOf(victim.connections() > 0 && managed.includes('plain'))
    }),
  explained,
}

async function asked(
  { inside, runtime }: Ground,
  { allowed, victim }: Pick<Scene, 'allowed' | 'victim'>,
  spec: Partial<SandboxSpec>,
): Promise<readonly string[]> {
  const refusal = runtime.refuses({ limits: attackLimits, network: 'none', ...spec })
  if (refusal !== undefined) throw new Error(`The runtime refuses a network. ${refusal.reason} ${refusal.remedy}`)
  return managedBy(await inside(python(askingAround, { allowed: allowed.port, victim: victim.port }), spec))
}

/** Opens as many connections as possible, sends a little on each and keeps them open. */
const crowding = `
import select, socket, time
held = []
def open_one():
    for _ in range(given['most']):
        one = socket.socket(socket.AF_UNIX if isinstance(given['address'], str) else socket.AF_INET)
        one.connect(given['address'] if isinstance(given['address'], str) else tuple(given['address']))
        one.send(b'G')
        held.append(one)
try: open_one()
except OSError: pass
time.sleep(0.5)
print('crowded', flush=True)
def alive(one):
    if not select.select([one], [], [], 0)[0]: return True
    try: return one.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) not in (b'', b'H')
    except OSError: return False
count = sum(alive(one) for one in held)
time.sleep(given['seconds'])
return [str(count)]`

const crowd: Attack = {
  number: 52,
  title: 'a thousand slow connections: their number is limited, and other clients are served',
  attempt: (ground) =>
    scene(async ({ allowed, spec }) => {
      const given = { address: '/gantry/egress/proxy.sock', most: 1_000, seconds: 1.5 }
      const crowded = Promise.withResolvers<void>()
      const attack = ground.inside(python(crowding, given, { onOutput: () => crowded.resolve() }), spec(allowed))
      await Promise.race([crowded.promise, attack])
      const other = await asked(ground, { allowed, victim: allowed }, spec(allowed))
      const [held = ''] = managedBy(await attack)
      ground.note(`${held} of 1000 connections were kept`)
      return endOf(Number(held) > usualLimits.connections || !other.includes('allowed'))
    }),
  // A listener that sets no bound keeps them all.
  async control({ outside }) {
    const open = await listenOnHost({ host: '127.0.0.1', port: 0 }, () => undefined)
    try {
      const given = { address: ['127.0.0.1', open.port], most: 1_000, seconds: 0 }
      const [held = ''] = managedBy(await outside(python(crowding, given)))
      return endOf(Number(held) > usualLimits.connections)
    } finally {
      await open.close()
    }
  },
  explained,
}

/** Of 46–54 those on the guarded way out. */
export const egressAttacks: readonly Attack[] = [aroundTheProxy, crowd]

/** A listener on the host that is there to be reached, or not. */
export interface Listener {
  readonly port: number
  /** How many have connected. */
  connections(): number
  /** How many are connected. */
  held(): number
  close(): Promise<void>
}

/** Listens, and greets each with what `greet` writes. */
export async function listenOnHost(
  where: ListenOptions,
  greet: (socket: Socket) => void = (socket) => void socket.end('here'),
): Promise<Listener> {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    connections += 1
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)))
    greet(socket)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(where, resolve))
  const address = server.address()
  if (typeof where.path === 'string' && !where.path.startsWith('\0')) chmodSync(where.path, 0o777)
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    connections: () => connections,
    held: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** How many came while something was done. */
export async function counted(where: ListenOptions, meanwhile: (port: number) => Promise<unknown>): Promise<number> {
  const listener = await listenOnHost(where)
  try {
    await meanwhile(listener.port)
    // A client that connected before the program ended is in the queue by now.
    await new Promise((resolve) => setImmediate(resolve))
    return listener.connections()
  } finally {
    await listener.close()
  }
}

/** Whether a server answers at an address, seen from the host. */
export function answers(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, host, () => resolve(true)).on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** The loopback and whatever else the host is known by. */
export function hostAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  return [
    '127.0.0.1',
    ...all.filter(({ internal, family }) => !internal && family === 'IPv4').map((one) => one.address),
  ]
}
