/**
 * Python that makes Pyodide a plain interpreter and then is the driver that other runtimes have too. `build` runs before
 * the memory is kept, `enter` after it was put back, when nothing of a program is there yet.
 */
export const guestSource = String.raw`
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
