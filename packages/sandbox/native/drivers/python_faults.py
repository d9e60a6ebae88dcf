"""How a Python program over tools ends, and how its failure is reported."""

import builtins
import inspect
import linecache

from python_tools import ToolError, to_text

# Python has groups of errors from 3.11 on.
GROUP = getattr(builtins, 'BaseExceptionGroup', ())

async def settle(gateway, first, space, key):
    """Waits for the program, for what it returned where that is to be awaited, and for calls that it did not await."""
    if first is not None:
        await first
    kind, value = space.get(key) or (0, None)
    while inspect.isawaitable(value):
        value = await value
    space[key] = (kind, value)
    await gateway.settle()


def fault_of(error, kind, name):
    """An error as it is reported to the host, with places in the program's own text only."""
    while isinstance(error, GROUP) and error.exceptions:
        error = error.exceptions[0]
    fault = {'kind': kind, 'name': type(error).__name__, 'message': message_of(error)[:4_000]}
    places = places_of(error.__traceback__, name)
    if isinstance(error, SyntaxError) and kind == 'compile':
        fault.update({'line': error.lineno or 1, 'column': error.offset or 1})
    elif isinstance(error, RecursionError) and kind == 'compile':
        fault['message'] = f'The code is nested too deeply: {fault["message"]}'
    elif places:
        fault.update({'line': places[0][0], 'column': places[0][1]})
        fault['stack'] = '\n'.join(f'at {where} ({name}:{line}:{column})' for line, column, where in places[:20])
    if isinstance(error, ToolError) and is_json(error.info):
        fault['error'] = error.info
    return to_text(fault)


def is_json(value):
    """A program may have made the error itself, of anything."""
    try:
        to_text(value)
    except (TypeError, ValueError):
        return False
    return True


def message_of(error):
    """Half of a character pair, which no JSON can hold, is written as Python escapes it."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
        return text.encode(errors='backslashreplace').decode()
    except Exception:
        return ''


def places_of(step, name):
    """Lines and columns of a program that an error came through, the innermost first."""
    places = []
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename == name:
            places.append((step.tb_lineno, column_of(step, code, name), code.co_name))
        step = step.tb_next
    return places[::-1]


def column_of(step, code, name):
    """From 1 on, in characters; the compiler counts bytes."""
    if not hasattr(code, 'co_positions') or step.tb_lasti < 0:
        return 1
    for index, (line, _, column, _) in enumerate(code.co_positions()):
        if index == step.tb_lasti // 2:
            text = linecache.getline(name, line) if line else ''
            return len(text.encode()[: column or 0].decode(errors='replace')) + 1
    return 1
