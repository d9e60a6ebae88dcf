"""Starts python.py, in an image from one file of compiled code.

An interpreter looks for each of its modules in folders and reads it from a file of its own, a dozen system calls each.
Where a kernel in user space answers them, that takes longer than all the rest of a start. An image therefore has
`python.library` beside this file: the length of an index in four bytes, the index, and compiled code. The index is
`(version, {name: (path, offset, length)})` in the order of the imports, with `python` for python.py itself. A library of
another interpreter is left alone.
"""

import _frozen_importlib_external as machinery
import builtins
import marshal
import posix
import sys

FOLDER = machinery._path_split(__file__)[0]


class Library:
    """Modules that are loaded as from their files, with code that is compiled already."""

    def __init__(self, fd):
        head = int.from_bytes(posix.read(fd, 4), 'little')
        version, entries = marshal.loads(posix.read(fd, head))
        self.entries = entries if version == sys.version else {}
        self.fd = fd
        self.start = 4 + head

    def code(self, name):
        _, offset, length = self.entries[name]
        return marshal.loads(posix.pread(self.fd, length, self.start + offset))

    def find_spec(self, name, path=None, target=None):
        if name not in self.entries:
            return None
        loader = Loader(name, self.entries[name][0])
        loader.library = self
        return machinery.spec_from_file_location(name, loader.path, loader=loader)

    def load(self):
        """Imports what python.py will import; afterwards it is as if that had been imported from its files."""
        sys.meta_path.insert(0, self)
        for name in self.entries:
            __import__(name)
        sys.meta_path.remove(self)
        for name, (path, *_) in self.entries.items():
            module = sys.modules[name]
            module.__loader__ = module.__spec__.loader = machinery.SourceFileLoader(name, path)


class Loader(machinery.SourceFileLoader):
    def get_code(self, name):
        return self.library.code(name)


def driver():
    """The code of python.py, when all that it imports is imported."""
    try:
        fd = posix.open(f'{FOLDER}/python.library', posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        library = Library(fd)
        if 'python' not in library.entries:
            return None
        code = library.code('python')
        del library.entries['python']
        library.load()
        return code
    finally:
        posix.close(fd)


def from_source():
    with open(f'{FOLDER}/python.py', 'rb') as file:
        return compile(file.read(), file.name, 'exec')


exec(driver() or from_source(), {'__name__': '__main__', '__file__': f'{FOLDER}/python.py', '__builtins__': builtins})
