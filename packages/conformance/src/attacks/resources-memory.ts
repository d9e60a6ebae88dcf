import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { type Attack, attackLimits, type Ground, isInPod } from './attack.ts'
import { callingPython, endOf, javascript, lastNumber, python, tooMuchIn } from './programs.ts'

const mebi = 1024 * 1024
const limit = 64 * mebi
/** Where each stops by itself, so that none can hurt the machine. */
const enough = 120 * mebi

/** `grow` gives how many bytes more the program has now; what it has is said on each line. */
const growing = `
kept = []
def hold(grow):
    held = 0
    try:
        while held < ${enough}:
            more = grow()
            if more == 0: break
            held += more
            print(held, flush=True)
    except (OSError, MemoryError): pass
    print(held, flush=True)
    give_back()
def give_back(): pass
block = bytes(65536)
def fill(write):
    sent = 0
    try:
        while sent < 16 << 20: sent += write(block)
    except BlockingIOError: pass
    return sent
`

/** Memory that is not a process's own, and some that is. */
const ways: { readonly [name: string]: string } = {
  mapped: `
import mmap
def grow():
    one = mmap.mmap(-1, 4 << 20)
    for at in range(0, 4 << 20, 4096): one[at] = 1
    kept.append(one)
    return 4 << 20`,
  'memory file': `
def grow():
    kept.append(os.memfd_create('held'))
    return os.write(kept[-1], bytes(4 << 20))`,
  'shared segments': `
libc.shmat.restype = ctypes.c_void_p
def grow():
    segment = libc.shmget(0, 4 << 20, 0o1600)
    place = libc.shmat(segment, None, 0)
    libc.shmctl(segment, 0, None)
    if segment < 0 or place in (None, 2**64 - 1): return 0
    ctypes.memset(place, 1, 4 << 20)
    return 4 << 20`,
  messages: `
class Message(ctypes.Structure): _fields_ = [('kind', ctypes.c_long), ('text', ctypes.c_char * 8192)]
message = Message(1, b'x' * 8192)
def give_back():
    """Queues outlive their maker where no namespace ends with it, as in the control."""
    for queue in kept: libc.msgctl(queue, 0, None)
def grow():
    queue = libc.msgget(0, 0o1600)
    if queue < 0: return 0
    kept.append(queue)
    return sum(8192 for _ in range(64) if libc.msgsnd(queue, ctypes.byref(message), 8192, 0o4000) == 0)`,
  pipes: `
import fcntl
def grow():
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try: fcntl.fcntl(writer, 1031, 1 << 20)
    except OSError: pass
    kept.append((reader, writer))
    return fill(lambda piece: os.write(writer, piece))`,
  'local sockets': `
import socket
def grow():
    one, other = socket.socketpair()
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    kept.append((one, other))
    return fill(one.send)`,
  'TCP buffers': `
import socket
listener = socket.create_server(('127.0.0.1', 0))
def grow():
    one = socket.create_connection(listener.getsockname())
    kept.append((one, listener.accept()))
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    return fill(one.send)`,
  'UDP buffers': `
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def grow():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
    one.bind(('127.0.0.1', 0))
    one.setblocking(False)
    kept.append(one)
    for _ in range(64): sender.sendto(bytes(32768), one.getsockname())
    # Only what was not dropped is there; it is looked at, not taken, where the kernel can move on while it looks.
    one.setsockopt(socket.SOL_SOCKET, 42, 0)
    try: look = socket.MSG_PEEK if one.getsockopt(socket.SOL_SOCKET, 42) >= 0 else 0
    except OSError: look = 0
    seen = 0
    try:
        while True: seen += len(one.recv(65536, look))
    except OSError: pass
    # What was taken is sent once more.
    if look == 0:
        for _ in range(64): sender.sendto(bytes(32768), one.getsockname())
    return seen`,
}

const jobsOf = (kind: string): ReadonlyMap<string, SandboxJob> =>
  new Map<string, SandboxJob>(
    kind === 'wasm'
      ? [
          [
            'python',
            python(`${growing}\ndef grow():\n    kept.append(bytearray(4 << 20))\n    return 4 << 20\nhold(grow)`),
          ],
          [
            'javascript',
            javascript(
              `const kept = []; for (let held = 0; held < ${enough}; ) { kept.push(new Uint8Array(4 << 20).fill(1)); held += 4 << 20; console.log(held) }`,
            ),
          ],
        ]
      : Object.entries(ways)
          .filter(([name]) => !isInPod(kind) || !/^(?:TCP|UDP)/.test(name))
          .map(([name, code]) => [name, callingPython(`${growing}${code}\nhold(grow)`)]),
  )

/** The ways by which more was held than the limit says, with what came of each. */
async function beyond(ground: Ground, run: Ground['inside'], memoryBytes: number): Promise<Map<string, Outcome>> {
  const found = new Map<string, Outcome>()
  for (const [name, job] of jobsOf(ground.kind)) {
    const outcome = await run(job, { limits: { ...attackLimits, memoryBytes } })
    const held = lastNumber(outcome)
    ground.note(`${name}: ${Math.round(held / mebi)} MiB`)
    // A run that was ended for it may have had a little more before it was measured.
    if (held > limit && outcome.hit !== 'memoryBytes') found.set(name, outcome)
  }
  return found
}

export const heldMemory: Attack = {
  number: 56,
  title: 'memory by mappings, memfds, shared segments, message queues, pipes and socket buffers',
  async attempt(ground) {
    const found = await beyond(ground, ground.inside, limit)
    const [outcome] = found.values()
    // What processes have themselves is held everywhere.
    return outcome === undefined ? 'blocked' : found.has('mapped') ? 'succeeded' : tooMuchIn(outcome)
  },
  async control(ground) {
    const found = await beyond(ground, ground.outside, 512 * mebi)
    return endOf(found.size === jobsOf(ground.kind).size)
  },
}
