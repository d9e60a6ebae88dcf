import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { fromHost, inPieces } from './frames.ts'
import { becomeShell, closeShell, type HostNode, takeNode } from './host-node.ts'
import { capMemory, createDisk, restorePyodide, startPyodide } from './pyodide.ts'
import { createService } from './service.ts'

/**
 * Python that makes Pyodide a plain interpreter and then is the driver that other runtimes have too. `build` runs before
 * the memory is kept, `enter` after it was put back, when nothing of a program is there yet.
 */
const guestSource = String.raw`
import asyncio, builtins, os, socket, struct, sys, time, types
import collections, datetime, functools, gc, io, itertools, json, linecache, math, random, re, threading, traceback
import python_channel, python_json, python_returns, python_still

CHANNEL = 3
WAIT = '/dev/wait'


def sleep(seconds, open=os.open, write=os.write, close=os.close, pack=struct.pack):
    """Sleeps in the host, because the sleep of the C library here is a busy loop."""
    if seconds < 0:
        raise ValueError('sleep length must be non-negative')
    device = open(WAIT, os.O_WRONLY)
    try:
        write(device, pack('<d', seconds))
    finally:
        close(device)


class Waiting:
    def select(self, timeout):
        sleep(3600 if timeout is None else max(0, timeout))
        return []


class Loop(asyncio.BaseEventLoop):
    """An event loop that only knows timers, for there is nothing else to wait for."""

    def __init__(self):
        super().__init__()
        self._selector = Waiting()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


def unreachable(*_, **__):
    """The C library here makes up an address for every name."""
    raise socket.gaierror(socket.EAI_FAIL, 'there is no network')


def read_line(read=os.read):
    line = b''
    while not line.endswith(b'\n'):
        piece = read(CHANNEL, 1 << 20)
        if not piece:
            return None
        line += piece
    return line


def enter(code):
    from pyodide import webloop

    policy = asyncio.events._BaseDefaultEventLoopPolicy()
    policy._loop_factory = Loop
    asyncio.events._set_running_loop(None)
    asyncio.events._event_loop_policy = policy
    asyncio.run = webloop._orig_run
    time.sleep = sleep
    sys.excepthook = sys.__excepthook__
    python_channel.read_line = read_line
    for name in ('getaddrinfo', 'gethostbyname', 'gethostbyname_ex', 'gethostbyaddr', 'getnameinfo'):
        setattr(socket, name, unreachable)
        setattr(socket._socket, name, unreachable)
    ours = {'js', 'pyodide_js', 'pyodide', '_pyodide', '_pyodide_core', 'gantry_guest'}
    for name in [name for name in sys.modules if name.partition('.')[0] in ours]:
        del sys.modules[name]
    # Finders of Pyodide are of its own modules; those of Python are frozen ones.
    sys.meta_path[:] = [finder for finder in sys.meta_path if 'pyodide' not in getattr(finder, '__module__', type(finder).__module__)]
    for name in ('ctypes', '_ctypes', *ours):
        sys.modules[name] = None
    exec(code, {'__name__': '__main__', '__file__': '/gantry/drivers/python.py', '__builtins__': builtins})
`

/**
 * The process of a Python program. `node host.mjs <folder of pyodide> <snapshot>` becomes an interpreter, sends `ready` and
 * waits for its job on descriptor 3; `node host.mjs <folder of pyodide> --make <folder of drivers>` sends the memory
 * snapshot of one. Its references to Node are in closures; the program sees only Python.
 *
 * The driver is in control: it reads its job from a device, where the host waits for one, writes its value there, and its
 * exit returns here as an exception.
 */
async function main(): Promise<never> {
  const [, , folder = '', snapshot = '', drivers = ''] = process.argv
  const node = takeNode()
  try {
    const sources = snapshot === '--make' ? driverFiles.map((name) => readFileSync(drivers + name)) : []
    const shell = becomeShell(folder, node.complain)
    const cap = capMemory()
    if (snapshot === '--make') return await make(node, folder, sources)
    const pyodide = await restorePyodide(folder, snapshot)
    closeShell()
    const service = createService({ node, shell, cap, pyodide, disk: createDisk(pyodide.FS) })
    service.install()
    return service.end(exitCodeOf(node, () => pyodide.runPython(enter)))
  } catch (error) {
    node.complain(error instanceof Error ? `${error.name}: ${error.message}` : String(error))
    return node.exit(1)
  }
}

const driverFiles = ['python.py', 'python_channel.py', 'python_json.py', 'python_returns.py', 'python_still.py']
const enter = "import sys; guest = sys.modules['gantry_guest']; guest.enter(guest.code)"
/** The exit code of a program that aborts, as on a POSIX system. */
const fatalCode = 134

/** Runs Python until it exits or crashes. */
function exitCodeOf(node: HostNode, run: () => void): number {
  try {
    run()
    return 0
  } catch (error) {
    if (error instanceof Object && 'status' in error && typeof error.status === 'number') return error.status
    node.send(fromHost.stderr, Buffer.from(`Fatal Python error: ${String(error).slice(0, 4_096)}\n`))
    return fatalCode
  }
}

/** Starts an interpreter with the driver in it, and sends its memory. */
async function make(node: HostNode, folder: string, sources: readonly Uint8Array[]): Promise<never> {
  const pyodide = await startPyodide(folder)
  pyodide.FS.mkdirTree('/gantry/drivers')
  for (const [index, source] of sources.entries()) {
    pyodide.FS.writeFile(`/gantry/drivers/${driverFiles[index]}`, source)
  }
  pyodide.FS.writeFile('/gantry/guest.py', Buffer.from(guestSource))
  pyodide.runPython(build)
  inPieces(pyodide.makeMemorySnapshot(), (piece) => node.send(fromHost.snapshot, piece))
  node.send(fromHost.end)
  return node.exit(0)
}

const build = `
import gc, sys, types
sys.path.insert(0, '/gantry/drivers')
guest = types.ModuleType('gantry_guest')
with open('/gantry/guest.py') as file:
    exec(compile(file.read(), '/gantry/guest.py', 'exec'), guest.__dict__)
with open('/gantry/drivers/python.py') as file:
    guest.code = compile(file.read(), '/gantry/drivers/python.py', 'exec')
sys.modules['gantry_guest'] = guest
sys.path.remove('/gantry/drivers')
del guest, file
gc.collect()
gc.freeze()
`

await main()
