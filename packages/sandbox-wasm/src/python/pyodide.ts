import { Buffer } from 'node:buffer'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { pageBytes, type WasmMemory, webAssembly } from '../guest/web-assembly.ts'

/** The part of Pyodide that a host uses. */
export interface Pyodide {
  readonly FS: FileSystem
  readonly _module: { readonly HEAPU8: Uint8Array }
  runPython(code: string): unknown
  setStdin(options: { read(into: Uint8Array): number; isatty: boolean }): void
  setStdout(options: OutputOptions): void
  setStderr(options: OutputOptions): void
  makeMemorySnapshot(): Uint8Array
}

interface OutputOptions {
  write(bytes: Uint8Array): number
  isatty: boolean
}

/** Emscripten's file system, which lies in memory. */
export interface FileSystem {
  readonly filesystems: {
    readonly MEMFS: {
      readonly ops_table: { readonly file: { readonly stream: { write: WriteOperation } } }
      resizeFileStorage(node: FileNode, size: number): void
    }
  }
  readonly ErrnoError: new (errno: number) => Error
  readonly root: FileNode
  registerDevice(device: number, operations: DeviceOperations): void
  makedev(major: number, minor: number): number
  mkdev(path: string, mode: number, device: number): void
  open(path: string, flags: string): { readonly fd: number }
  mkdirTree(path: string): void
  chdir(path: string): void
  writeFile(path: string, bytes: Uint8Array): void
  isFile(mode: number): boolean
  isDir(mode: number): boolean
  isLink(mode: number): boolean
  lookupPath(path: string, options: object): { readonly node: FileNode }
}

export interface FileNode {
  readonly mode: number
  readonly name: string
  /** The bytes of a file, at least `usedBytes` of them; by name, what a folder holds. */
  readonly contents: Uint8Array | { readonly [name: string]: FileNode } | null
  readonly usedBytes: number
}

type WriteOperation = (
  stream: { readonly node: FileNode },
  buffer: Uint8Array,
  offset: number,
  length: number,
  position: number,
  canOwn?: boolean,
) => number

export interface DeviceOperations {
  open(stream: { seekable: boolean }): void
  close(): void
  read(stream: object, buffer: Uint8Array, offset: number, length: number): number
  write(stream: object, buffer: Uint8Array, offset: number, length: number): number
}

/** Where the parts of a kept memory stand in its file: behind a head, those stretches of it that are not all zero. */
export interface SnapshotIndex {
  readonly headBytes: number
  readonly memoryBytes: number
  readonly stretches: readonly (readonly [start: number, bytes: number])[]
}

/** Pyodide's memory settings before its start, and what restores a snapshot afterwards. */
interface Settings {
  INITIAL_MEMORY: number
  HEAPU8: Uint8Array
  readonly API: { restoreSnapshot(snapshot: Uint8Array): unknown }
}

type Create = (settings: Settings) => Promise<unknown>

const options = { env: { HOME: '/work', PYTHONHASHSEED: '0' }, jsglobals: Object.freeze(Object.create(null)) }

/** An interpreter that will be kept: started from nothing, which takes seconds. */
export async function startPyodide(folder: string): Promise<Pyodide> {
  return await load(folder, { _makeSnapshot: true }, (create) => create)
}

/**
 * An interpreter as it was kept. Its memory is read straight to where it belongs; Pyodide itself would want all of it in
 * another place first.
 */
export async function restorePyodide(folder: string, file: string): Promise<Pyodide> {
  const index = JSON.parse(readFileSync(`${file}.json`, 'utf8')) as SnapshotIndex
  const snapshot = openSync(file, 'r')
  const head = Buffer.alloc(index.headBytes)
  readSync(snapshot, head)
  try {
    return await load(folder, { _loadSnapshot: new Uint8Array(head) }, (create) => async (settings) => {
      settings.INITIAL_MEMORY = index.memoryBytes
      const made = await create(settings)
      const { API } = settings
      const restore = API.restoreSnapshot
      API.restoreSnapshot = (small) => {
        const restored = restore(small)
        fill(settings.HEAPU8, snapshot, index)
        return restored
      }
      return made
    })
  } finally {
    closeSync(snapshot)
  }
}

async function load(folder: string, how: object, around: (create: Create) => Create): Promise<Pyodide> {
  const [{ loadPyodide }, { default: create }] = (await Promise.all([
    import(pathToFileURL(`${folder}pyodide.mjs`).href),
    import(pathToFileURL(`${folder}pyodide.asm.mjs`).href),
  ])) as [{ loadPyodide(options: object): Promise<Pyodide> }, { default: Create }]
  const { info } = JSON.parse(readFileSync(`${folder}pyodide-lock.json`, 'utf8')) as { info: object }
  // Without a list of packages it has none to look for elsewhere.
  const lockFileContents = JSON.stringify({ info, packages: {} })
  const given = { ...options, ...how, indexURL: folder, packageBaseUrl: folder, lockFileContents }
  return await loadPyodide({ ...given, createPyodideModule: around(create) })
}

function fill(memory: Uint8Array, file: number, { headBytes, stretches }: SnapshotIndex): void {
  for (const [start, bytes] of stretches) {
    for (let done = 0; done < bytes; ) {
      const got = readSync(file, memory, start + done, bytes - done, headBytes + start + done)
      if (got === 0) throw new Error('The snapshot is too short.')
      done += got
    }
  }
}

/** Holds the linear memories of a process to a size. */
export interface MemoryCap {
  limit(bytes: number): void
  /** Whether memory was refused since the limit was set. */
  readonly refused: boolean
}

/** Stands between Pyodide and every growth of its memory, which it asks for by this one method. */
export function capMemory(): MemoryCap {
  const prototype = webAssembly.Memory.prototype
  const { grow } = prototype
  let [most, refused] = [Number.POSITIVE_INFINITY, false]
  prototype.grow = function (this: WasmMemory, pages: number): number {
    if (this.buffer.byteLength + pages * pageBytes > most) {
      refused = true
      throw new RangeError('The memory limit is reached.')
    }
    return grow.call(this, pages)
  }
  return {
    limit(bytes) {
      most = bytes
      refused = false
    },
    get refused() {
      return refused
    },
  }
}
