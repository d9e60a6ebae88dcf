"""JSON that every reader understands alike: what would be lost or changed on its way is refused with its place."""

import json

SAFE_INTEGER = 2**53 - 1
HALF = 'holds half of a character pair'
LOST = 'is a whole number beyond 2**53 - 1, which would lose digits; pass it as a string'


def strict_text(value, ensure_ascii, place=''):
    """Writes JSON in one line; raises TypeError or ValueError for anything else. `place` is where the value stands."""
    try:
        found = loss_in(value)
        if found is not None:
            raise TypeError(f'{place + found[0] or "it"} {found[1]}')
        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, separators=(',', ':'))
    except RecursionError:
        raise ValueError(f'{place or "it"} is nested too deeply, or holds itself') from None


def loss_in(value):
    """The JSON Pointer of the first thing that JSON would change, and what it is; None when there is none."""
    if isinstance(value, str):
        return None if is_whole(value) else ('', HALF)
    if isinstance(value, int):
        return None if -SAFE_INTEGER <= value <= SAFE_INTEGER else ('', LOST)
    if isinstance(value, dict):
        return loss_in_members(value)
    if isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            found = loss_in(member)
            if found is not None:
                return f'/{index}{found[0]}', found[1]
    return None


def loss_in_members(value):
    for key, member in value.items():
        if not isinstance(key, str):
            return '', f'has a key of type {type(key).__name__}; give it as a str'
        if not is_whole(key):
            return '', f'has a key that {HALF}'
        found = loss_in(member)
        if found is not None:
            return f'/{key.replace("~", "~0").replace("/", "~1")}{found[0]}', found[1]
    return None


def is_whole(text):
    """Python holds the two halves of a character apart, and lets one be without the other."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
