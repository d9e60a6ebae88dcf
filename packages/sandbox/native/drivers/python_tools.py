"""What a Python program over tools sees: `tools`, `run`, `chain`, `search` and the like, and the errors of tools."""

import asyncio
import base64

from python_json import strict_text

LONGEST = 1_000_000
LONGEST_SLEEP_MS = 2**53 - 1


class ToolError(Exception):
    """What a tool, or the host in its place, answered instead of a value."""

    def __init__(self, info):
        super().__init__(info.get('message'))
        self.code = info.get('code')
        self.message = info.get('message')
        self.retryable = info.get('retryable', False)
        self.details = info.get('details')
        self.info = info


def names_of(gateway):
    def ask(kind, body):
        gateway.check()
        text = to_text(body)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return later(kind, text)
        return ask_in(loop, kind, text)

    def ask_in(loop, kind, text):
        future = loop.create_future()

        def tell(ok, value):
            if not future.done() and not loop.is_closed():
                if ok:
                    future.set_result(value)
                else:
                    future.set_exception(ToolError(value))

        number = gateway.ask(kind, text, tell)
        future.add_done_callback(lambda done: done.cancelled() and gateway.forget(number))
        return future

    async def later(kind, text):
        return await ask_in(asyncio.get_running_loop(), kind, text)

    def run(tool, args=None, /, **named):
        return ask('call', {'tool': tool, 'args': arguments(args, named)})

    def chain(steps, options=None, /, **named):
        return ask('chain', {**arguments(options, named), 'steps': steps})

    def search(words, options=None, /, **named):
        return ask('search', {**arguments(options, named), 'words': words})

    def describe(tool, options=None, /, **named):
        return ask('describe', {**arguments(options, named), 'tool': tool})

    def examples(tool):
        return ask('examples', {'tool': tool})

    def sleep(ms):
        if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 <= ms < float('inf'):
            raise ValueError('sleep takes a number of milliseconds that is finite and not below 0')
        return asyncio.sleep(min(ms, LONGEST_SLEEP_MS) / 1000)

    class Namespace:
        def __init__(self, name):
            self.__name = name

        def __getattr__(self, name):
            if name.startswith('__'):
                raise AttributeError(name)
            return self[name]

        def __getitem__(self, name):
            tool = f'{self.__name}:{name}'

            def call(args=None, /, **named):
                return run(tool, arguments(args, named))

            call.__name__ = call.__qualname__ = str(name)
            return call

        def __repr__(self):
            return f'<tools of {self.__name}>'

    class Tools:
        def __getattr__(self, name):
            if name.startswith('__'):
                raise AttributeError(name)
            return Namespace(name)

        def __getitem__(self, name):
            return Namespace(name)

        def __repr__(self):
            return '<tools>'

    class Artifacts:
        def put(self, name, content, options=None, /, **named):
            if isinstance(content, (bytes, bytearray)):
                how = {'base64': base64.b64encode(content).decode()}
            else:
                how = {'content': content if isinstance(content, str) else to_text(content, '/put/content')}
            return ask('artifact', {'put': {**arguments(options, named), 'name': name, **how}})

        def get(self, id):
            return ask('artifact', {'get': id})

    functions = (run, chain, search, describe, examples, sleep)
    names = {function.__name__: function for function in functions}
    return {**names, 'tools': Tools(), 'artifacts': Artifacts(), 'ToolError': ToolError, 'asyncio': asyncio}


def arguments(args, named):
    if args is None:
        return named
    if not isinstance(args, dict):
        raise TypeError(f'arguments are given by name, or as one dict, not as {type(args).__name__}')
    if named:
        raise TypeError('arguments are given by name, or as one dict, not both')
    return args


def to_text(value, place=''):
    """What is asked with, as strict JSON in one line."""
    text = strict_text(value, ensure_ascii=True, place=place)
    if len(text) > LONGEST:
        raise ValueError(f'what is asked with is longer than {LONGEST} bytes')
    return text
