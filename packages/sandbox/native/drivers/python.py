"""The Python interpreter that waits inside a sandbox.

Started ahead of its program, it reads one line of JSON from descriptor 3, the job:
    code           the program's text
    env            the whole environment of the program
    argv           what stands behind `main.py` in sys.argv; nothing when absent
    session        true: keep the globals and wait for the next line after this one
    deterministic  {seed, nowMs}: random numbers from a seed, and a clock that stands
    token          a word for its last line, `{"done": true, "code": n, "token": …}`, right before it ends
    gateway        a word that makes it a program over tools: see python_gateway.py, which then has descriptor 3
It runs the code as `__main__`, writes `{"value": …}` to descriptor 3 when the code returned something, and ends as
the interpreter itself would. In a session it writes `{"done": true, "code": n}` after each cell.

Descriptor 3 stays open: it is the program's own, for lines of progress, logs and values. Children inherit it where
they are started with `pass_fds=[3]` or by a bare fork.
"""

import _signal
import _thread
import atexit
import collections  # noqa: F401  Programs use these; imported here, they cost them nothing.
import datetime  # noqa: F401
import functools  # noqa: F401
import gc
import io
import itertools  # noqa: F401
import json
import linecache
import math  # noqa: F401
import os
import random
import re  # noqa: F401
import site
import sys
import threading
import time
import traceback
import types

def find_packages():
    """Adds the packages of the host's configuration where those of a user are: behind the library, before the system's."""
    base = os.environ.get('PYTHONUSERBASE')
    if base is None:
        return
    folder = f'{base}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages'
    if not os.path.isdir(folder):
        sys.exit(f'gantry: no packages for Python {sys.version.split()[0]}; run `gantry runtime build packages --update`')
    before = list(sys.path)
    site.addsitedir(folder)
    added = [path for path in sys.path if path not in before]
    place = next((at for at, path in enumerate(before) if path.endswith('-packages')), len(before))
    sys.path[:] = [*before[:place], *added, *before[place:]]


OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, OWN_FOLDER)

from python_channel import read_line, send  # noqa: E402
from python_json import strict_text  # noqa: E402
from python_returns import RETURNED, TOP_LEVEL_AWAIT, compile_tree  # noqa: E402

IS_COROUTINE = 0x80
LONGEST_VALUE = 1_000_000
INTERRUPTED = 0x100 + 130
# The host ends this process when it reads the last line; without a host the process goes on after this.
PATIENCE_SECONDS = 0.005
wait = time.sleep


def prepare(job):
    """Makes the process that of the program: its environment, arguments, search path, randomness and clock."""
    env = job.get('env') or {}
    # Most of it is as it was at the start, and to set a variable takes as long as to compile a line.
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if 'TZ' in os.environ:
        time.tzset()
    sys.argv[:] = ['main.py', *(job.get('argv') or [])]
    # Where a memory is kept to start from, all that start from it would have the same numbers.
    random.seed()
    advance = None
    if job.get('deterministic'):
        from python_still import hold_still

        advance = hold_still(job['deterministic']['seed'], job['deterministic']['nowMs'])
    gateway, names = None, {}
    if job.get('gateway'):
        import python_faults  # noqa: F401  Later this folder is out of sight.
        from python_gateway import open_gateway

        gateway, names = open_gateway(job, advance)
    sys.path[:] = [os.getcwd(), *(folder for folder in sys.path if folder != OWN_FOLDER)]
    return gateway, names


def open_streams():
    """Lines leave at once, so that they are seen while the program runs and are not lost when it is killed."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)


def main_module():
    """A fresh `__main__`, in which nothing of this file can be seen."""
    module = types.ModuleType('__main__')
    module.__file__ = os.path.join(os.getcwd(), 'main.py')
    module.__builtins__ = sys.modules['builtins']
    module.__annotations__ = {}
    sys.modules['__main__'] = module
    return module


# Code


def compile_code(source, name, session):
    """Compiles code in which `await` and `return` may stand outside functions."""
    try:
        if session:
            return compile_tree(source, name, True)
        try:
            return compile(source, name, 'exec', TOP_LEVEL_AWAIT, True)
        except SyntaxError as error:
            if error.msg != "'return' outside function":
                raise
        return compile_tree(source, name, False)
    except SyntaxError as error:
        show_own_line(error, source, name)
        raise


def show_own_line(error, source, name):
    """The compiler looks for the line in a file of that name, which may be there and be another."""
    lines = lines_of(source)
    if error.filename == name and error.lineno and error.lineno <= len(lines):
        error.text = lines[error.lineno - 1]


def lines_of(source):
    return io.StringIO(source if source.endswith('\n') else f'{source}\n', None).readlines()


# Runs


class Program:
    """The `__main__` of a sandbox and what has run in it."""

    def __init__(self, session, token, gateway=None, names=()):
        self.session = session
        self.token = token
        self.gateway = gateway
        self.module = main_module()
        self.module.__dict__.update(names)
        self.names = set()
        self.loop = None
        self.pid = os.getpid()

    def run(self, source):
        """Runs code and gives its exit code."""
        name = f'cell-{len(self.names) + 1}.py' if self.session else 'main.py'
        self.names.add(name)
        source = source[1:] if source[:1] == '\ufeff' else source
        for key in {name, self.module.__file__}:
            linecache.cache[key] = (len(source), None, lines_of(source), key)
        space = self.module.__dict__
        stage = 'compile'
        try:
            code = compile_code(source, name, self.session)
            stage = 'run'
            if RETURNED in code.co_names:
                space[RETURNED] = ()
            found = eval(code, space)
            if code.co_flags & IS_COROUTINE:
                self.wait_for(found)
            if self.gateway is not None:
                self.answer(space)
            else:
                self.deliver(*space.get(RETURNED) or (0, None))
        except SystemExit as error:
            if self.gateway is not None and error.code not in (None, 0):
                self.fail(error, stage)
            return exit_code(error.code)
        except BaseException as error:
            if self.gateway is not None:
                self.fail(error, stage)
            else:
                self.report(error)
            return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        finally:
            space.pop(RETURNED, None)
        return 0

    def wait_for(self, coroutine):
        import asyncio

        if self.gateway is not None:
            from python_faults import settle

            asyncio.run(settle(self.gateway, coroutine, self.module.__dict__, RETURNED))
            return
        if not self.session:
            asyncio.run(coroutine)
            return
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(coroutine)

    def answer(self, space):
        """Sends what a program over tools returned; null when that is nothing, and a failure when it is no JSON."""
        value = (space.get(RETURNED) or (0, None))[1]
        if hasattr(value, '__await__') or self.gateway.owed:
            self.wait_for(None)
            value = space[RETURNED][1]
        try:
            text = to_json(value)
        except (TypeError, ValueError) as error:
            # Errors of other types may not take a text.
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f'the value of the program is not JSON: {error}') from None
        self.gateway.finish(f'= {text}')

    def fail(self, error, stage):
        from python_faults import fault_of

        flush(sys.stdout)
        self.gateway.finish(f'! {fault_of(error, stage, "main.py")}')

    def deliver(self, kind, value):
        """Sends what was returned; a cell's last expression is shown when it cannot be sent, as a notebook would."""
        if kind == 0 or (kind == 1 and value is None) or os.getpid() != self.pid:
            return
        try:
            text = to_json(value)
        except Exception as error:
            if kind == 1:
                print(repr(value))
            else:
                reason = str(error) if isinstance(error, (TypeError, ValueError)) else type(error).__name__
                complain(f'gantry: the value is left out because it is not JSON: {reason}')
            return
        send(f'{{"value":{text}}}')

    def report(self, error):
        """Prints an error as the interpreter does, from the program's first line on."""
        begin = error.__traceback__
        while begin is not None and begin.tb_frame.f_code.co_filename not in self.names:
            begin = begin.tb_next
        error = error.with_traceback(begin)
        try:
            flush(sys.stdout)
            if sys.excepthook is sys.__excepthook__:
                traceback.print_exception(type(error), error, begin)
            else:
                sys.excepthook(type(error), error, begin)
        except BaseException as another:
            complain(f'gantry: the error could not be shown: {type(error).__name__}, then {type(another).__name__}')


def exit_code(code):
    """What `sys.exit(code)` means to the interpreter."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(2**63) <= code < 2**63 else 255
    flush(sys.stdout)
    complain(str(code))
    return 1


def to_json(value):
    """Strict JSON that every reader understands alike; raises for anything else."""
    text = strict_text(value, ensure_ascii=False)
    if len(text.encode()) > LONGEST_VALUE:
        raise ValueError(f'it is longer than {LONGEST_VALUE} bytes; write it to a file')
    return text


def complain(text):
    try:
        print(text, file=sys.stderr, flush=True)
    except Exception:
        pass


# Ends


def leave(program, status):
    """Ends as the interpreter does, but without taking its own modules apart, which has no visible effect."""
    for step in (threading._shutdown, atexit._run_exitfuncs):
        try:
            step()
        except BaseException:
            pass
    if _thread._count() == 0:
        space = program.module.__dict__
        for name in [name for name in space if name != '__builtins__']:
            space[name] = None
        gc.collect()
    flush_files()
    flush(sys.__stdout__)
    flushed = [flush(sys.stdout), flush(sys.stderr)]
    if status == INTERRUPTED:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    code = status & 0xFF if all(flushed) else 120
    if program.token is not None and os.getpid() == program.pid:
        send(f'{{"done":true,"code":{code},"token":"{program.token}"}}')
        wait(PATIENCE_SECONDS)
    os._exit(code)


def flush_files():
    """Writes out what still waits in files that the program did not close."""
    for kind in (io.TextIOBase, io.BufferedIOBase):
        for thing in gc.get_objects():
            if issubclass(type(thing), kind):
                flush(thing)


def flush(stream):
    """Whether nothing was lost."""
    try:
        if stream is not None and not getattr(stream, 'closed', False):
            stream.flush()
        return True
    except Exception:
        return False


def rehearse():
    """Does once, while there is time, what every program needs, so that its memory is there when it counts."""
    json.loads('{"code":"0","env":{}}')
    linecache.cache['main.py'] = (0, None, lines_of('0'), 'main.py')
    linecache.cache.clear()
    eval(compile_code('0', 'main.py', False), {})
    flush_files()


def main():
    open_streams()
    find_packages()
    if 'gateway' in sys.argv[1:]:
        import python_faults  # noqa: F401  They take longer to load than most programs run.
        import python_gateway  # noqa: F401
    # What is here now lives as long as the process, so no later collection needs to look at it.
    gc.collect()
    gc.freeze()
    rehearse()
    line = read_line()
    if line is None:
        return
    job = json.loads(line)
    del line
    program = Program(bool(job.get('session')), job.get('token'), *prepare(job))
    status = program.run(job['code'])
    while program.session and os.getpid() == program.pid:
        flush(sys.stdout), flush(sys.stderr)
        send(f'{{"done":true,"code":{status & 0xFF}}}')
        line = read_line()
        if line is None:
            leave(program, 0)
        job = json.loads(line)
        status = program.run(job['code'])
    leave(program, status)


main()
