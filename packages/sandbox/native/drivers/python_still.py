"""Python runs that can be repeated."""

import datetime
import importlib.util
import os
import random
import sys
import time


def hold_still(seed, now_ms):
    """Random numbers from a seed, and a clock that stands; gives what sets it. What waits goes by the real one.

    The order of sets rests on PYTHONHASHSEED, which only counts when it is there at the interpreter's start.
    """
    source = random.Random(seed)
    reseed = random.Random.seed
    random.Random.seed = lambda self, a=None, version=2: reseed(self, source.getrandbits(64) if a is None else a, version)
    random.seed = random._inst.seed
    random.seed(seed)
    os.urandom = random._urandom = source.randbytes
    os.getrandom = lambda size, flags=0: source.randbytes(size)
    now, start_ms = now_ms / 1000, now_ms
    local, utc, text = time.localtime, time.gmtime, time.strftime
    time.time, time.time_ns = lambda: now, lambda: now_ms * 1_000_000
    clock = time.monotonic
    # Event loops wait by a clock that goes on.
    on_import('asyncio.base_events', lambda module: setattr(module.BaseEventLoop, 'time', lambda loop: clock()))
    on_import('uuid', lambda module: name_by(module, random.Random(seed + 1).getrandbits(48)))
    for name in ('monotonic', 'perf_counter', 'process_time', 'thread_time'):
        setattr(time, name, lambda: (now_ms - start_ms) / 1000)
        setattr(time, f'{name}_ns', lambda: (now_ms - start_ms) * 1_000_000)
    walls = {getattr(time, name, None) for name in ('CLOCK_REALTIME', 'CLOCK_TAI')}
    time.clock_gettime = lambda clk_id, /: time.time() if clk_id in walls else time.monotonic()
    time.clock_gettime_ns = lambda clk_id, /: time.time_ns() if clk_id in walls else time.monotonic_ns()
    os.times = lambda: os.times_result((time.process_time(), 0.0, 0.0, 0.0, time.monotonic()))
    for name in ('localtime', 'gmtime', 'ctime'):
        setattr(time, name, lambda at=None, real=getattr(time, name): real(now if at is None else at))
    time.strftime = lambda form, at=None: text(form, local(now) if at is None else at)
    time.asctime = lambda at=None, real=time.asctime: real(local(now) if at is None else at)
    date, moment = datetime.date, datetime.datetime
    datetime.date = standing(date, {'today': classmethod(lambda cls: cls(*local(now)[:3]))})
    datetime.datetime = standing(
        moment,
        {
            'now': classmethod(lambda cls, tz=None: cls.fromtimestamp(now, tz)),
            'today': classmethod(lambda cls: cls.fromtimestamp(now)),
            'utcnow': classmethod(lambda cls: cls(*utc(now)[:6], now_ms % 1000 * 1000)),
        },
    )

    def advance(to_ms):
        nonlocal now, now_ms
        # A clock that goes back would make waits longer than they were asked for.
        now_ms = max(now_ms, to_ms)
        now = now_ms / 1000

    return advance


def name_by(uuid, node):
    """Lets `uuid1` go by the clock of the program instead of the system's, and by no hardware address."""
    uuid._generate_time_safe = None
    # The bit says that it is the address of no device.
    uuid._node = node | 1 << 40


def on_import(wanted, change):
    """Changes a module whenever it is imported."""

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name != wanted:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                change(module)

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Finder())


def standing(real, methods):
    """A class that is taken for a real one and knows no other time."""

    class Standing(type):
        def __instancecheck__(cls, value):
            return isinstance(value, real) if cls is made else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other):
            return issubclass(other, real) if cls is made else type.__subclasscheck__(cls, other)

    def represent(self):
        return f'datetime.{real.__repr__(self)}' if type(self) is made else real.__repr__(self)

    made = Standing(real.__name__, (real,), {**methods, '__module__': 'datetime', '__repr__': represent})
    return made
