"""A Python program over tools: its functions ask the host on a descriptor of their own, and wait for the answers.

Lines, each beginning with the run's token, so that no other output passes for one:
    TOKEN ? number kind json    a gateway request, numbered from 1 on in the order made
    TOKEN . read                quiescent: nothing goes on without a response; how many responses were read
    TOKEN ~ read                the same, but threads or children of the program may still work
    TOKEN = json                the value of the program
    TOKEN ! json                how it failed
and back `number ok time json`: `ok` is 1 or 0, `time` the clock in milliseconds or `-`.

A response is read only when the event loop is quiescent, one at a time: the same responses in the same order make the
same program. Where the clock stands, whatever waits for a time asks its host for it.
"""

import _thread
import asyncio
import fcntl
import json
import os
import selectors
import threading
import time

import python_channel
from python_tools import names_of

MOST_WAITING = 100_000
RESERVED_FROM = 10


class Channel:
    """The descriptor to the host, out of reach of the programs that this one starts."""

    def __init__(self, token):
        self.fd = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, RESERVED_FROM)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 3, inheritable=False)
        os.close(nothing)
        python_channel.CHANNEL = self.fd
        self.head = token.encode() + b' '
        self.out = []
        self.held = bytearray()
        self.lines = []

    def say(self, text):
        self.out.append(self.head + text.encode() + b'\n')

    def flush(self):
        rest = memoryview(b''.join(self.out))
        self.out.clear()
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def read(self):
        """Waits for more; whole lines come to `lines`, the oldest last."""
        got = os.read(self.fd, 1 << 18)
        if not got:
            raise SystemExit(1)
        self.held += got
        if b'\n' in got:
            *whole, rest = self.held.split(b'\n')
            self.lines[:0] = reversed(whole)
            self.held = bytearray(rest)


class Gateway:
    """Gateway requests without a response."""

    def __init__(self, job, advance):
        self.channel = Channel(job['gateway'])
        self.advance = advance
        self.count = 0
        self.read = 0
        self.rested = (0, 0)
        self.working = False
        self.sooner = []
        self.waiting = {}
        self.owed = set()
        self.settled = None
        self.pid = os.getpid()

    def ask(self, kind, text, tell):
        """Numbers a request, which is JSON; `tell(ok, value)` is called with its response."""
        self.check()
        if len(self.waiting) >= MOST_WAITING:
            raise RuntimeError(f'more than {MOST_WAITING} calls wait for their answers')
        self.count += 1
        self.waiting[self.count] = tell
        if kind in ('call', 'chain'):
            self.owed.add(self.count)
        self.channel.say(f'? {self.count} {kind} {text}')
        return self.count

    def check(self):
        if os.getpid() != self.pid or threading.current_thread() is not threading.main_thread():
            raise RuntimeError('only the main thread of the program itself can ask its host')

    def come_to_rest(self):
        """Sends the requests and reports quiescence, unless the host knows of it."""
        rest = (self.count, self.read)
        working = may_work()
        if self.rested != rest or (self.working and not working):
            self.rested = rest
            self.working = working
            self.channel.say(f'{"~" if working else "."} {self.read}')
            self.channel.flush()

    def take(self):
        """Reads the next response: its number, whether it is ok, and its value."""
        number, ok, now, text = bytes(self.channel.lines.pop()).split(b' ', 3)
        if now != b'-' and self.advance is not None:
            self.advance(int(now))
        self.read += 1
        return int(number), ok == b'1', json.loads(text)

    def tell(self, number, ok, value):
        tell = self.waiting.pop(number, None)
        if tell is not None:
            tell(ok, value)
        self.forget(number)

    def forget(self, number):
        """The program waits for this call no longer."""
        self.owed.discard(number)
        if not self.owed and self.settled is not None and not self.settled.done():
            self.settled.set_result(None)

    async def settle(self):
        """Waits until every call is answered; what only waits for a time is not waited for."""
        self.settled = asyncio.get_running_loop().create_future()
        if self.owed:
            await self.settled

    def sleep(self, seconds):
        """Blocks until the host has responded; earlier responses to other requests are delivered later, in their order."""
        over = []
        number = self.ask('sleep', time_text(seconds), lambda ok, value: over.append(ok))
        while not over:
            while not self.channel.lines:
                self.come_to_rest()
                self.channel.read()
            answer = self.take()
            if answer[0] == number:
                self.tell(*answer)
            else:
                self.sooner.append(answer)

    def finish(self, text):
        """Says the last that is said of the program: its value, or how it failed."""
        if os.getpid() != self.pid:
            return
        self.channel.out.clear()
        self.channel.say(text)
        try:
            self.channel.flush()
        except OSError:
            pass


class AtRest(selectors.EpollSelector):
    """What an event loop waits with: it is asked for time only when the loop has nothing else to do."""

    def __init__(self, gateway):
        super().__init__()
        self.gateway = gateway
        self.fd = gateway.channel.fd
        super().register(self.fd, selectors.EVENT_READ)

    def select(self, timeout=None):
        if timeout is not None and timeout <= 0:
            return self.others(super().select(0))
        gateway = self.gateway
        gateway.check()
        if gateway.sooner:
            gateway.tell(*gateway.sooner.pop(0))
            return []
        if not gateway.channel.lines:
            gateway.come_to_rest()
            events = super().select(timeout)
            if any(key.fd == self.fd for key, _ in events):
                gateway.channel.read()
            if not gateway.channel.lines:
                return self.others(events)
        gateway.tell(*gateway.take())
        return []

    def others(self, events):
        return [event for event in events if event[0].fd != self.fd]


class Loop(asyncio.SelectorEventLoop):
    """An event loop that knows the host; where the clock stands, times come as answers."""

    def __init__(self, gateway):
        super().__init__(AtRest(gateway))
        self.gateway = gateway

    def time(self):
        return time.time() if self.gateway.advance is not None else super().time()

    def call_at(self, when, callback, *args, context=None):
        if self.gateway.advance is None:
            return super().call_at(when, callback, *args, context=context)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        wait = time_text(when - self.time())
        # A handle that was called off stays one: its answer finds nothing to do.
        self.gateway.ask('sleep', wait, lambda ok, value: self.is_closed() or self._ready.append(handle))
        return handle

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle):
        if self.gateway.advance is None:
            super()._timer_handle_cancelled(handle)


class Loops(asyncio.DefaultEventLoopPolicy):
    def __init__(self, gateway):
        super().__init__()
        self.gateway = gateway

    def new_event_loop(self):
        main = threading.current_thread() is threading.main_thread() and os.getpid() == self.gateway.pid
        return Loop(self.gateway) if main else super().new_event_loop()


def may_work():
    """Whether there are other threads, which may be idle, or children, which may have ended."""
    if _thread._count() > 0:
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    except OSError:
        pass
    return True


def time_text(seconds):
    return f'{{"ms":{max(0, round(seconds * 1000))}}}'


def open_gateway(job, advance):
    """Makes this process that of a program over tools; gives the gateway and the names for the program."""
    gateway = Gateway(job, advance)
    asyncio.set_event_loop_policy(Loops(gateway))
    if advance is not None:
        time.sleep = gateway.sleep
    return gateway, names_of(gateway)
