import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { launcherBinary } from '@gantry/sandbox/internal/launcher/binary'
import { compileFilter } from '@gantry/sandbox/internal/process/seccomp/filters'
import { unavailable } from '../engines/docker-client.ts'
import type { Flavour } from './flavours.ts'
import { labelsOfSystem } from './image-contents.ts'
import { endOfProgram, runProgram } from './run-program.ts'

/** Counted up when the steps below change, so that the same packages give another digest. */
const recipe = '4'

/** A root file system as a folder, with the digest of everything that it was made from. */
export interface RootFileSystem {
  readonly folder: string
  /** Hexadecimal; the same packages and the same parts of ours give the same. */
  readonly digest: string
  /** Programs for languages that it has, by path. */
  readonly programs: readonly string[]
  readonly hasNode: boolean
  remove(): Promise<void>
}

export interface BuildOptions {
  readonly flavour: Flavour
  readonly signal: AbortSignal
  /** Called with each step. */
  readonly onProgress?: (step: string) => void
  /** Where packages are kept between builds; the user's cache folder when absent. */
  readonly cache?: string
}

/**
 * Makes a minimal root file system from Debian packages, without a registry of images: python, bash, busybox and our init.
 * No script of a package runs. Rejects with RUNTIME_UNAVAILABLE where apt is missing.
 */
export async function buildRootFileSystem(options: BuildOptions): Promise<RootFileSystem> {
  const { flavour, signal, onProgress } = options
  const cache = options.cache ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gantry', 'debian')
  const work = await mkdtemp(join(tmpdir(), 'gantry-image-'))
  const folder = join(work, 'root')
  try {
    const apt = await aptIn(work)
    onProgress?.('resolving packages')
    // Against an empty archive, because apt names only what it would fetch.
    const packages = await resolvePackages([...apt, ...archiveAt(join(work, 'none'))], flavour, signal)
    onProgress?.(`downloading ${packages.length} packages`)
    await runProgram(
      'apt-get',
      [
        ...apt,
        ...archiveAt(cache),
        '-qq',
        '-y',
        '--no-install-recommends',
        '--download-only',
        'install',
        ...flavour.packages,
      ],
      { signal },
    )
    await makeFolders(folder)
    for (const [index, file] of packages.entries()) {
      onProgress?.(`unpacking ${index + 1} of ${packages.length}`)
      await unpack(join(cache, file), folder, signal)
    }
    await removeWaste(folder)
    onProgress?.('adding the init and its drivers')
    await addSystemFiles(folder)
    await addParts(folder, flavour)
    await linkBusybox(folder, signal)
    await dropPrivilegeBits(folder)
    const parts = await digestOf(join(folder, 'gantry'))
    onProgress?.('compiling the library of Python')
    await compilePython(folder, signal)
    await listLibraries(folder, signal)
    await writeContents(folder, flavour, parts)
    const hashes = await Promise.all(packages.toSorted().map((file) => hashOf(join(cache, file))))
    return {
      folder,
      digest: createHash('sha256')
        .update([recipe, flavour.name, parts, ...hashes].join('\n'))
        .digest('hex'),
      programs: checkedPrograms(folder, flavour),
      hasNode: flavour.node,
      remove: () => rm(work, { recursive: true, force: true }),
    }
  } catch (error) {
    // A program that was aborted may write for a moment longer.
    await rm(work, { recursive: true, force: true, maxRetries: 5 })
    throw error
  }
}

/** Options of apt that make it resolve as if nothing were installed. */
async function aptIn(work: string): Promise<readonly string[]> {
  if (!existsSync('/usr/bin/apt-get') || !existsSync('/usr/bin/dpkg-deb')) {
    const remedy = 'Build the image on Debian or Ubuntu, or name one with `runtimes.docker.image`.'
    throw unavailable('There is no apt-get here to get packages with.', remedy)
  }
  const status = join(work, 'status')
  await writeFile(status, '')
  return ['-o', `Dir::State::status=${status}`, '-o', 'APT::Sandbox::User=root']
}

function archiveAt(folder: string): readonly string[] {
  mkdirSync(join(folder, 'partial'), { recursive: true })
  return ['-o', `Dir::Cache::archives=${folder}`]
}

async function resolvePackages(
  apt: readonly string[],
  { packages }: Flavour,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const list = ['--print-uris', '-qq', '-y', '--no-install-recommends', '--reinstall', 'install', ...packages]
  const text = await runProgram('apt-get', [...apt, ...list], { signal })
  const found = text.split('\n').flatMap((line) => /^'[^']*' (\S+\.deb) \d+/.exec(line)?.[1] ?? [])
  if (found.length > 0) return found
  throw unavailable('apt-get knows none of the packages of the image.', 'Run `apt-get update` as root.')
}

/** Debian keeps programs under `usr` and links to it; the links must be there before the first package. */
async function makeFolders(folder: string): Promise<void> {
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    await mkdir(join(folder, 'usr', name), { recursive: true })
    await symlink(`usr/${name}`, join(folder, name))
  }
}

async function unpack(file: string, folder: string, signal: AbortSignal): Promise<void> {
  const tar = spawn('tar', ['-x', '--keep-directory-symlink', '--no-same-owner', '-C', folder], {
    stdio: ['pipe', 'ignore', 'pipe'],
    signal,
  })
  const deb = spawn('dpkg-deb', ['--fsys-tarfile', file], { stdio: ['ignore', 'pipe', 'pipe'], signal })
  deb.stdout.pipe(tar.stdin)
  await Promise.all([endOfProgram(deb, `dpkg-deb ${file}`), endOfProgram(tar, 'tar')])
}

const waste = [
  'usr/share/doc',
  'usr/share/man',
  'usr/share/info',
  'usr/share/locale',
  'usr/share/lintian',
  'usr/share/bash-completion',
  'usr/lib/x86_64-linux-gnu/gconv',
  'usr/lib/aarch64-linux-gnu/gconv',
  'var/cache',
  'var/lib',
  'root',
  'home',
  'boot',
  'media',
  'mnt',
  'opt',
  'srv',
  'etc/shadow',
  'etc/gshadow',
]

async function removeWaste(folder: string): Promise<void> {
  for (const name of waste) await rm(join(folder, name), { recursive: true, force: true })
}

/** Throws when the packages did not bring what the flavour promises: the image would refuse its languages later. */
function checkedPrograms(folder: string, { name, programs }: Flavour): readonly string[] {
  const absent = programs.filter((path) => !existsSync(join(folder, path)))
  if (absent.length === 0) return programs
  const reason = `The packages of this system bring no ${absent.join(', ')}, which an image ${name} must have.`
  throw unavailable(reason, 'Build another flavour, or build it on another release of Debian or Ubuntu.')
}

/** Names that a script of the package would have linked. */
const alternatives: readonly (readonly [string, string])[] = [
  ['cc', 'gcc'],
  ['c++', 'g++'],
]

/** What scripts of packages would have made, and where the engine mounts. */
async function addSystemFiles(folder: string): Promise<void> {
  for (const name of ['proc', 'sys', 'dev', 'run', 'work', 'etc', 'gantry/egress']) {
    await mkdir(join(folder, name), { recursive: true })
  }
  await rm(join(folder, 'tmp'), { recursive: true, force: true })
  await symlink('/work/.gantry/tmp', join(folder, 'tmp'))
  await rm(join(folder, 'var/tmp'), { recursive: true, force: true })
  await mkdir(join(folder, 'var'), { recursive: true })
  await symlink('/work/.gantry/tmp', join(folder, 'var/tmp'))
  await writeFile(
    join(folder, 'etc/passwd'),
    'root:x:0:0:root:/:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n',
  )
  await writeFile(join(folder, 'etc/group'), 'root:x:0:\nnogroup:x:65534:\n')
  for (const [name, program] of alternatives) {
    const bin = join(folder, 'usr/bin')
    if (existsSync(join(bin, program)) && !existsSync(join(bin, name))) await symlink(program, join(bin, name))
  }
  for (const name of ['hosts', 'hostname', 'resolv.conf']) await writeFile(join(folder, 'etc', name), '')
  const authorities = join(folder, 'usr/share/ca-certificates/mozilla')
  if (!existsSync(authorities)) return
  const texts = await Promise.all(
    (await readdir(authorities)).sort().map((name) => readFile(join(authorities, name), 'latin1')),
  )
  await mkdir(join(folder, 'etc/ssl/certs'), { recursive: true })
  await writeFile(join(folder, 'etc/ssl/certs/ca-certificates.crt'), texts.join('\n'))
}

/** The init, the programs that wait for code, the filters, and Node where the flavour has it. */
async function addParts(folder: string, { node }: Flavour): Promise<void> {
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64')
    throw unavailable(`There is no init for ${arch}.`, 'Use an x64 or arm64 machine.')
  const { path, bytes } = await launcherBinary()
  const parts = join(folder, 'gantry')
  await writeFile(join(parts, 'init'), bytes, { mode: 0o755 })
  await cp(join(dirname(dirname(path)), 'drivers'), join(parts, 'drivers'), { recursive: true })
  await mkdir(join(parts, 'filters'))
  for (const name of ['base', 'strict', 'offline'] as const)
    await writeFile(join(parts, 'filters', name), compileFilter(arch, name))
  if (!node) return
  await cp(process.execPath, join(parts, 'node'))
  await chmod(join(parts, 'node'), 0o755)
}

/** The labels of the image as a file, for an engine that shows no labels. */
async function writeContents(folder: string, flavour: Flavour, parts: string): Promise<void> {
  const labels = labelsOfSystem({ digest: parts, programs: checkedPrograms(folder, flavour), hasNode: flavour.node })
  await writeFile(join(folder, 'gantry/contents.json'), `${JSON.stringify(labels)}\n`)
}

/** Links for the programs that no package has. */
async function linkBusybox(folder: string, signal: AbortSignal): Promise<void> {
  const busybox = ['usr/bin/busybox', 'bin/busybox'].find((path) => existsSync(join(folder, path)))
  if (busybox === undefined) return
  const names = (await runProgram(join(folder, busybox), ['--list'], { signal }))
    .split('\n')
    .filter((name) => /^[\w.[-]+$/.test(name))
  for (const name of names) {
    const path = join(folder, 'usr/bin', name)
    if (!existsSync(path) && !existsSync(join(folder, 'usr/sbin', name)))
      await symlink('busybox', path).catch(() => undefined)
  }
}

/** Without the list every program looks for its libraries in a dozen folders that are not there. */
async function listLibraries(folder: string, signal: AbortSignal): Promise<void> {
  await runProgram('/sbin/ldconfig', ['-X', '-r', folder], { signal })
  await rm(join(folder, 'var/cache'), { recursive: true, force: true })
}

/** Programs that run as their owner are of no use without privileges, and a risk with a mistake elsewhere. */
async function dropPrivilegeBits(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const { mode } = await lstat(path)
    if ((mode & 0o6000) !== 0) await chmod(path, mode & 0o777)
  }
}

async function hashOf(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
}

async function digestOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  for (const entry of (await readdir(folder, { recursive: true })).sort()) {
    const path = join(folder, entry)
    if (!(await lstat(path)).isFile()) continue
    hash.update(`${entry}\0`).update(await readFile(path))
  }
  return hash.digest('hex')
}

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
