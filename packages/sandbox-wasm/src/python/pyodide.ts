import { Buffer } from 'node:buffer'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { pageBytes, type WasmMemory, webAssembly } from '../guest/binary.ts'
import { viewOf } from './frames.ts'

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

/** Emscripten's in-memory file system. */
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
  /** The bytes of a file, at least `usedBytes` of them; or the entries of a folder, by name. */
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

/** Positions of the parts of a snapshot in its file: a header, then its non-zero ranges. */
export interface SnapshotIndex {
  readonly headBytes: number
  readonly memoryBytes: number
  readonly stretches: readonly (readonly [start: number, bytes: number])[]
}

/** Pyodide's memory settings before its start, and the function that restores a snapshot afterwards. */
interface Settings {
  INITIAL_MEMORY: number
  HEAPU8: Uint8Array
  readonly API: { restoreSnapshot(snapshot: Uint8Array): unknown }
}

type Create = (settings: Settings) => Promise<unknown>

const options = { env: { HOME: '/work', PYTHONHASHSEED: '0' }, jsglobals: Object.freeze(Object.create(null)) }

/** Starts an interpreter from scratch, for a snapshot; takes seconds. */
export async function startPyodide(folder: string): Promise<Pyodide> {
  return await load(folder, { _makeSnapshot: true }, (create) => create)
}

/**
 * Restores an interpreter from a snapshot. Its memory is read directly to its place; Pyodide itself would first need all of
 * it in another buffer.
 */
export async function restorePyodide(folder: string, file: string): Promise<Pyodide> {
  const index: SnapshotIndex = JSON.parse(readFileSync(`${file}.json`, 'utf8'))
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

interface PyodideModule {
  loadPyodide(options: object): Promise<Pyodide>
}

async function load(folder: string, how: object, around: (create: Create) => Create): Promise<Pyodide> {
  const loading: [Promise<PyodideModule>, Promise<{ default: Create }>] = [
    import(pathToFileURL(`${folder}pyodide.mjs`).href),
    import(pathToFileURL(`${folder}pyodide.asm.mjs`).href),
  ]
  const [{ loadPyodide }, { default: create }] = await Promise.all(loading)
  const { info }: { info: object } = JSON.parse(readFileSync(`${folder}pyodide-lock.json`, 'utf8'))
  // Without a package list Pyodide has none to download.
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

/** Caps the linear memories of a process. */
export interface MemoryCap {
  limit(bytes: number): void
  /** Whether memory was refused since the limit was set. */
  readonly refused: boolean
}

/** Wraps the one method by which Pyodide grows its memory. */
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

/** The file system of a Python host: limited in size, filled with input files, and walked for collection. */
export interface Disk {
  /** Sets the byte limit of all files, not counting those that existed before. */
  limit(bytes: number): void
  /** Whether a write was refused for lack of space. */
  readonly refused: boolean
  layOut(files: readonly (readonly [path: string, bytes: Uint8Array])[]): void
  /** Calls `file` for each file in path order, with its bytes; links and special files go to `other` with a reason. */
  walk(file: (path: string, bytes: Uint8Array) => void, other: (path: string, reason: string) => void): void
}

const home = '/work'
const noSpace = 51
const mostDepth = 32
const mostEntries = 20_000

export function createDisk(fs: FileSystem): Disk {
  const { MEMFS } = fs.filesystems
  const { stream } = MEMFS.ops_table.file
  const [write, resize] = [stream.write, MEMFS.resizeFileStorage]
  /** Bytes of the files that existed before any program. */
  let base: number | undefined
  let [most, used, refused] = [Number.POSITIVE_INFINITY, 0, false]

  /** The count only grows, so it is recomputed before a refusal. */
  const take = (node: FileNode, size: number): void => {
    const more = size - node.usedBytes
    if (more <= 0) return
    if (used + more > most) used = sizeOf(fs, fs.root, new Set())
    if (used + more > most) {
      refused = true
      throw new fs.ErrnoError(noSpace)
    }
    used += more
  }
  stream.write = (open, buffer, offset, length, position, canOwn) => {
    take(open.node, position + length)
    return write(open, buffer, offset, length, position, canOwn)
  }
  MEMFS.resizeFileStorage = (node, size) => {
    take(node, size)
    resize(node, size)
  }
  return {
    limit(bytes) {
      refused = false
      used = sizeOf(fs, fs.root, new Set())
      base ??= used
      most = base + bytes
    },
    get refused() {
      return refused
    },
    layOut(files) {
      fs.mkdirTree(home)
      for (const [path, bytes] of files) {
        fs.mkdirTree(`${home}/${path}`.replace(/\/[^/]*$/, ''))
        // A plain copy, because the program can reach what is stored there.
        fs.writeFile(`${home}/${path}`, new Uint8Array(bytes))
      }
      fs.chdir(home)
    },
    walk(file, other) {
      let entries = 0
      const visit = (folder: FileNode, prefix: string, depth: number): void => {
        for (const [name, node] of membersOf(folder)) {
          if (++entries > mostEntries) return
          const path = prefix + name
          if (fs.isFile(node.mode)) file(path, viewOf(node.contents as Uint8Array, 0, node.usedBytes))
          else if (!fs.isDir(node.mode)) other(path, fs.isLink(node.mode) ? 'a symbolic link' : 'a device')
          else if (depth === mostDepth) other(path, 'too deep')
          else visit(node, `${path}/`, depth + 1)
        }
      }
      visit(fs.lookupPath(home, {}).node, '', 1)
    },
  }
}

function membersOf({ contents }: FileNode): [string, FileNode][] {
  if (contents === null || ArrayBuffer.isView(contents)) return []
  return Object.entries(contents).sort(([one], [other]) => (one < other ? -1 : 1))
}

/** Bytes of all files below a folder; a mounted folder lies elsewhere and is small. */
function sizeOf(fs: FileSystem, folder: FileNode, seen: Set<FileNode>): number {
  let bytes = 0
  const pending = [folder]
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (seen.has(node)) continue
    seen.add(node)
    if (fs.isFile(node.mode)) bytes += node.usedBytes
    else if (fs.isDir(node.mode)) for (const [, inner] of membersOf(node)) pending.push(inner)
  }
  return bytes
}
