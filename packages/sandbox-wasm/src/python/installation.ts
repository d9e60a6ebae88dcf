import { randomBytes } from 'node:crypto'
import { access, lstat, mkdir, open, readdir, realpath, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { type Confinement, findConfinement } from './confinement.ts'
import { fromHost } from './frames.ts'
import { connectHost, type HostClient } from './host-client.ts'
import { type HostFiles, readHostFiles } from './host-files.ts'
import { type SpawnHost, spawnPlainly } from './host-process.ts'
import { indexOf } from './snapshot-index.ts'

export interface InstallOptions {
  /** Where the kept memory of an interpreter lies; nobody else may write there. */
  readonly cacheFolder?: string
  /** Starts hosts in something stronger than a plain process. */
  readonly spawnHost?: SpawnHost
}

/** A Python that can be started here. */
export interface Installation {
  readonly version: string
  /** Starts an interpreter, whose memory cannot grow beyond a size. */
  start(memoryBytes: number): HostClient
  /** Whether the self-test was passed, by these very files. */
  tested(): Promise<boolean>
  markTested(): Promise<void>
}

/** What a host is started with. */
interface Place {
  /** With a slash at its end, as Pyodide wants it. */
  readonly pyodide: string
  readonly folder: string
  readonly spawn: SpawnHost
  readonly confinement: Confinement
}

/**
 * Finds Pyodide and the kept memory of an interpreter, which is made when it is not there: that takes seconds, once for
 * each version on a machine.
 * - Errors: SANDBOX_INIT_FAILED.
 */
export async function install(options: InstallOptions, signal: AbortSignal): Promise<Installation> {
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('pyodide/package.json')
  const { version } = require(manifest) as { version: string }
  const pyodide = `${await realpath(dirname(manifest))}/`
  const host = await readHostFiles(version)
  const cache = await ownFolder(options.cacheFolder ?? join(tmpdir(), `gantry-wasm-${process.getuid?.() ?? 0}`))
  const folder = join(cache, host.digest)
  if (!(await exists(join(folder, 'snapshot.json')))) {
    await removeOld(cache)
    await build(options, host, { pyodide, folder }, signal)
  }
  // So that it is not taken for an old one.
  await utimes(folder, new Date(), new Date())
  const place = { pyodide, folder, ...(await spawnerFor(options, pyodide, folder, signal)) }
  return {
    version,
    start: (memoryBytes) => startHost(place, [join(folder, 'snapshot')], { memoryBytes }),
    tested: () => exists(join(folder, 'tested')),
    markTested: () => writeFile(join(folder, 'tested'), ''),
  }
}

/** Makes the folder of an installation beside the others, whole or not at all. */
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
    // Whoever was faster made the same.
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

/** Only what is not zero is written; the file has holes in place of the rest. */
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

/** How hosts are started, tried out on what they have to read. */
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
/** The heap for Emscripten's own code and names of files; Python's memory is not on it. */
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
    // Pyodide is ours, so its code need not be looked through at each start.
    '--wasm-lazy-validation',
    // Helping threads cost more at the start than they give later.
    '--single-threaded',
    ...pages,
    '--no-warnings',
    join(folder, 'python/host.mjs'),
    pyodide,
    ...words,
  ]
  return connectHost(spawn([...confinement, ...command] as [string, ...string[]], { TZ: 'UTC' }))
}

/** A folder in which only this user writes; everybody may look, because a host may be somebody else. */
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

/** Removes what was not used for a month, and what somebody left behind who was killed while making it. */
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
