import { createHash, randomBytes } from 'node:crypto'
import {
  access,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { driversFolder, ownFile } from '../guest/own-files.ts'
import { fromHost } from './frames.ts'
import {
  type Confinement,
  connectHost,
  findConfinement,
  type HostClient,
  type SpawnHost,
  spawnPlainly,
} from './host-process.ts'
import type { SnapshotIndex } from './pyodide.ts'

export interface InstallOptions {
  /** Folder of the interpreter snapshot; only this user may write there. */
  readonly cacheFolder?: string
  /** Starts hosts with stronger isolation than a plain process. */
  readonly spawnHost?: SpawnHost
}

/** A Python that can be started here. */
export interface Installation {
  readonly version: string
  /** Starts an interpreter whose memory cannot grow beyond a size. */
  start(memoryBytes: number): HostClient
  /** Whether these exact files have passed the self-test. */
  tested(): Promise<boolean>
  markTested(): Promise<void>
}

/** The files and command of a host. */
interface Place {
  /** With a trailing slash, as Pyodide requires. */
  readonly pyodide: string
  readonly folder: string
  readonly spawn: SpawnHost
  readonly confinement: Confinement
}

/**
 * Finds Pyodide and the interpreter snapshot, which is created when missing: that takes seconds, once for each version
 * on a machine.
 * - Errors: SANDBOX_INIT_FAILED.
 */
export async function install(options: InstallOptions, signal: AbortSignal): Promise<Installation> {
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('pyodide/package.json')
  const { version }: { version: string } = require(manifest)
  const pyodide = `${await realpath(dirname(manifest))}/`
  const host = await readHostFiles(version)
  const cache = await ownFolder(options.cacheFolder ?? join(tmpdir(), `gantry-wasm-${process.getuid?.() ?? 0}`))
  const folder = join(cache, host.digest)
  if (!(await exists(join(folder, 'snapshot.json')))) {
    await removeOld(cache)
    await build(options, host, { pyodide, folder }, signal)
  }
  // Marks the folder as used, so that it is not removed as old.
  await utimes(folder, new Date(), new Date())
  const place = { pyodide, folder, ...(await spawnerFor(options, pyodide, folder, signal)) }
  return {
    version,
    start: (memoryBytes) => startHost(place, [join(folder, 'snapshot')], { memoryBytes }),
    tested: () => exists(join(folder, 'tested')),
    markTested: () => writeFile(join(folder, 'tested'), ''),
  }
}

/** Creates the folder of an installation atomically. */
async function build(
  options: InstallOptions,
  { modules, drivers }: HostFiles,
  { pyodide, folder }: Pick<Place, 'pyodide' | 'folder'>,
  signal: AbortSignal,
): Promise<void> {
  const draft = `${folder}.${randomBytes(6).toString('hex')}`
  try {
    for (const [path, text] of modules()) {
      await mkdir(dirname(join(draft, path)), { recursive: true })
      await writeFile(join(draft, path), text)
    }
    const place = { pyodide, folder: draft, ...(await spawnerFor(options, pyodide, draft, signal)) }
    await writeSnapshot(draft, await makeSnapshot(place, drivers, signal))
    // A faster process made the same snapshot.
    await rename(draft, folder).catch((error: unknown) => exists(join(folder, 'snapshot.json')).then(orThrow(error)))
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

function orThrow(error: unknown): (there: boolean) => void {
  return (there) => {
    if (!there) throw error
  }
}

async function makeSnapshot(place: Place, drivers: string, signal: AbortSignal): Promise<Uint8Array> {
  const host = startHost(place, ['--make', drivers], { readable: [drivers] })
  const made = Promise.withResolvers<Uint8Array>()
  const pieces: Uint8Array[] = []
  host.listen((kind, payload) => {
    if (kind === fromHost.snapshot) pieces.push(payload)
    else if (kind === fromHost.end) made.resolve(Buffer.concat(pieces))
  })
  void host.gone.then(() => {
    const cause = new Error(host.lastWords)
    made.reject(new ToolError('SANDBOX_INIT_FAILED', 'The Python interpreter could not be prepared.', { cause }))
  })
  try {
    return await unlessAborted(made.promise, signal)
  } finally {
    await host.kill()
  }
}

/** Writes only non-zero bytes; the file is sparse. */
async function writeSnapshot(folder: string, snapshot: Uint8Array): Promise<void> {
  const index = indexOf(snapshot)
  const file = await open(join(folder, 'snapshot'), 'wx')
  try {
    await file.write(snapshot, 0, index.headBytes, 0)
    for (const [start, bytes] of index.stretches) {
      await file.write(snapshot, index.headBytes + start, bytes, index.headBytes + start)
    }
  } finally {
    await file.close()
  }
  await writeFile(join(folder, 'snapshot.json'), JSON.stringify(index))
}

/** Returns how hosts are started, tested on the files that they must read. */
async function spawnerFor(
  { spawnHost }: InstallOptions,
  pyodide: string,
  folder: string,
  signal: AbortSignal,
): Promise<Pick<Place, 'spawn' | 'confinement'>> {
  if (spawnHost !== undefined) return { spawn: spawnHost, confinement: [] }
  const files = [process.execPath, `${pyodide}pyodide.asm.wasm`, join(folder, 'python/host.mjs')]
  return { spawn: spawnPlainly, confinement: await findConfinement(files, signal) }
}

const pageBytes = 65_536
/** The heap for Emscripten's code and file names; Python's memory is not on it. */
const heapMebibytes = 192

function startHost(
  { pyodide, folder, spawn, confinement }: Place,
  words: readonly string[],
  { memoryBytes, readable = [] }: { readonly memoryBytes?: number; readonly readable?: readonly string[] },
): HostClient {
  const pages = memoryBytes === undefined ? [] : [`--wasm-max-mem-pages=${Math.floor(memoryBytes / pageBytes)}`]
  const command = [
    process.execPath,
    '--permission',
    ...[pyodide, `${folder}/`, ...readable].map((path) => `--allow-fs-read=${path}`),
    '--disallow-code-generation-from-strings',
    `--max-old-space-size=${heapMebibytes}`,
    // Pyodide is trusted, so its code need not be validated at each start.
    '--wasm-lazy-validation',
    // Helper threads cost more at the start than they save later.
    '--single-threaded',
    ...pages,
    '--no-warnings',
    join(folder, 'python/host.mjs'),
    pyodide,
    ...words,
  ]
  return connectHost(spawn([...confinement, ...command] as [string, ...string[]], { TZ: 'UTC' }))
}

/** A folder that only this user can write to; all may read it, because a host may run as another user. */
async function ownFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o755 })
  const stats = await lstat(path)
  const own = process.getuid === undefined || stats.uid === process.getuid()
  if (stats.isDirectory() && own && (stats.mode & 0o022) === 0) return await realpath(path)
  throw new ToolError(
    'SANDBOX_INIT_FAILED',
    `The folder ${path} is not one in which only this user writes; remove it, or give the wasm runtime another cacheFolder.`,
  )
}

const dayMs = 86_400_000

/** Removes installations that were not used for a month, and drafts of processes that were killed. */
async function removeOld(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    if (!/^[0-9a-f]{32}(?:\.[0-9a-f]{12})?$/.test(name)) continue
    const path = join(cache, name)
    const { mtimeMs } = await lstat(path)
    if (Date.now() - mtimeMs < (name.includes('.') ? dayMs : 30 * dayMs)) continue
    await rm(path, { recursive: true, force: true })
  }
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  )
}

/** All files of a host, and a hash that identifies them. */
interface HostFiles {
  /** Module sources as Node runs them, by path in the folder of a host. */
  modules(): ReadonlyMap<string, string>
  /** The folder of the driver's files. */
  readonly drivers: string
  readonly digest: string
}

const modules = [
  'guest/random',
  'guest/binary',
  'python/frames',
  'python/host',
  'python/host-node',
  'python/pyodide',
  'python/service',
]
const drivers = ['python.py', 'python_channel.py', 'python_json.py', 'python_returns.py', 'python_still.py']

/**
 * Reads the files of a host. A host gets copies without types: stripping them at each start would take longer than
 * everything else, and the host needs no read access to our files.
 */
async function readHostFiles(version: string): Promise<HostFiles> {
  const files = modules.map((name) => ownFile(name))
  const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  const folder = driversFolder()
  const hash = createHash('sha256').update(`${version} ${process.version} ${process.arch} ${process.platform}`)
  for (const text of texts) hash.update(`\0${text}`)
  for (const name of drivers) hash.update('\0').update(await readFile(join(folder, name)))
  return {
    modules: () =>
      new Map(modules.map((name, index) => [`${name}.mjs`, asModule(files[index] ?? '', texts[index] ?? '')])),
    drivers: `${folder}/`,
    digest: hash.digest('hex').slice(0, 32),
  }
}

function asModule(file: string, text: string): string {
  const plain = file.endsWith('.ts') ? stripTypeScriptTypes(text) : text
  return plain.replace(/(from '\.[^']*)\.(?:ts|js)'/g, "$1.mjs'")
}

const blockBytes = 65_536
const zeros = Buffer.alloc(blockBytes)
/** Offset of the header length in a Pyodide snapshot. */
const headLengthAt = 4

/** Finds the non-zero ranges of a snapshot. */
function indexOf(snapshot: Uint8Array): SnapshotIndex {
  const bytes = Buffer.from(snapshot.buffer, snapshot.byteOffset, snapshot.byteLength)
  const headBytes = bytes.readUInt32LE(headLengthAt)
  const memory = bytes.subarray(headBytes)
  const stretches: [start: number, bytes: number][] = []
  for (let start = 0; start < memory.length; start += blockBytes) {
    const block = memory.subarray(start, start + blockBytes)
    if (block.equals(zeros.subarray(0, block.length))) continue
    const last = stretches.at(-1)
    if (last !== undefined && last[0] + last[1] === start) last[1] += block.length
    else stretches.push([start, block.length])
  }
  return { headBytes, memoryBytes: memory.length, stretches }
}
