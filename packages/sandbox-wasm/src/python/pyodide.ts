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

export type WriteOperation = (
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
