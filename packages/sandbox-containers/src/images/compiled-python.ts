import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from './run-program.ts'

/** The loader of programs and the folder of libraries, by architecture. */
const loaders: { readonly [arch: string]: readonly [libraries: string, loader: string] } = {
  x64: ['usr/lib/x86_64-linux-gnu', 'ld-linux-x86-64.so.2'],
  arm64: ['usr/lib/aarch64-linux-gnu', 'ld-linux-aarch64.so.1'],
}

/**
 * Writes `python.library`, which python_start.py reads: it runs the driver until that waits for its job, which the end of
 * descriptor 3 makes return, and keeps the compiled code of all modules that were imported by then.
 */
const makeLibrary = `
import marshal, sys
root, drivers = sys.argv[1:]
present = set(sys.modules)
path = drivers + '/python.py'
names = {'__name__': '__main__', '__file__': path, '__builtins__': __builtins__}
sys.argv[:] = [path]
exec(compile(open(path).read(), path, 'exec'), names)
from importlib.util import cache_from_source
code, library = bytearray(), {}
def keep(name, file):
    with open(cache_from_source(file), 'rb') as compiled:
        found = compiled.read()[16:]
    library[name] = (file[len(root):], len(code), len(found))
    code.extend(found)
for name, module in list(sys.modules.items()):
    spec = getattr(module, '__spec__', None)
    if name in present or spec is None or not spec.has_location or not spec.origin.endswith('.py'): continue
    if not name.startswith('importlib.'): keep(name, spec.origin)
keep('python', path)
index = marshal.dumps((sys.version, library))
with open(drivers + '/python.library', 'wb') as file: file.write(len(index).to_bytes(4, 'little') + index + code)
`

/**
 * Compiles Python's library and the driver with the interpreter of the image, as the script of its package would: the root
 * is read-only, so that every start would compile what it imports. By hash and without a time, so that equal images stay
 * equal. An image without Python is left as it is.
 */
export async function compilePython(folder: string, signal: AbortSignal): Promise<void> {
  const [libraries, loader] = loaders[process.arch] ?? []
  const programs = existsSync(join(folder, 'usr/bin')) ? await readdir(join(folder, 'usr/bin')) : []
  const name = programs.find((program) => /^python3\.\d+$/.test(program))
  if (libraries === undefined || loader === undefined || name === undefined) return
  const library = join(folder, libraries)
  const drivers = join(folder, 'gantry/drivers')
  const python = (...args: readonly string[]): Promise<string> =>
    runProgram(
      join(library, loader),
      ['--library-path', library, join(folder, 'usr/bin', name), '-s', '-B', '-X', 'utf8', ...args],
      { signal, env: { PYTHONHOME: join(folder, 'usr'), PYTHONHASHSEED: '0' }, third: 'ignore' },
    )
  const compile = ['-m', 'compileall', '-q', '--invalidation-mode', 'unchecked-hash', '-s', folder, '-p', '/']
  await python('-S', ...compile, join(folder, 'usr/lib', name), drivers)
  await python('-c', makeLibrary, folder, drivers)
}
