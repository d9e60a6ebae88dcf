import type { SandboxLimit } from '@gantry/contract'
import type { Outlet } from '../channel/guest-channel.ts'
import type { Deterministic } from '../channel/messages.ts'
import type { WasmMemory } from '../guest/binary.ts'
import type { FileEntry, FolderEntry, Workspace, WorkspaceCode } from '../guest/workspace.ts'

/** The WASI preview 1 error numbers that are used. */
export const errno = {
  success: 0,
  badf: 8,
  exist: 20,
  fault: 21,
  inval: 28,
  isdir: 31,
  mfile: 33,
  nametoolong: 37,
  noent: 44,
  nospc: 51,
  nosys: 52,
  notdir: 54,
  notempty: 55,
  notsup: 58,
  spipe: 70,
  notcapable: 76,
} as const

export const workspaceErrno: { readonly [Code in WorkspaceCode]: number } = {
  EEXIST: errno.exist,
  EINVAL: errno.inval,
  EISDIR: errno.isdir,
  ENAMETOOLONG: errno.nametoolong,
  ENOENT: errno.noent,
  ENOSPC: errno.nospc,
  ENOTDIR: errno.notdir,
  ENOTEMPTY: errno.notempty,
}

/** Ends a call with an error number. */
export class WasiError extends Error {
  readonly errno: number

  constructor(number: number) {
    super(`errno ${number}`)
    this.errno = number
  }
}

/** The state that the calls of one module use. */
export interface ModuleProgram {
  readonly memory: GuestMemory
  readonly descriptors: Descriptors
  readonly workspace: Workspace
  readonly clock: ModuleClock
  readonly outlet: Outlet
  readonly stdin: Uint8Array
  readonly argv: readonly string[]
  readonly env: readonly string[]
  random(bytes: Uint8Array): void
}

/** Calls by name. Each returns an error number, or nothing for success; 64-bit numbers are BigInts. */
export interface Calls {
  // biome-ignore lint/suspicious/noConfusingVoidType: most calls have nothing to say
  readonly [name: string]: (...values: never[]) => number | undefined | void
}

/** Thrown through the module to end it. */
export class ModuleEnd {
  readonly exitCode: number
  readonly hit: SandboxLimit | undefined

  constructor(exitCode: number, hit?: SandboxLimit) {
    this.exitCode = exitCode
    this.hit = hit
  }
}

/** The memory of a module for its calls. Every address comes from the module; one outside is EFAULT. */
interface GuestMemory {
  u32(at: number): number
  u64(at: number): bigint
  u16(at: number): number
  u8(at: number): number
  setU8(at: number, value: number): void
  setU16(at: number, value: number): void
  setU32(at: number, value: number): void
  setU64(at: number, value: bigint | number): void
  /** The bytes themselves, valid until the module runs again. */
  bytes(at: number, length: number): Uint8Array
  text(at: number, length: number): string
  /** The buffers that a call reads from or writes to. */
  pieces(at: number, count: number): Uint8Array[]
}

const mostPieces = 1_024
const longestText = 4_096

/** `memory` is called each time, because a memory that grows gets a new buffer. */
export function createGuestMemory(memory: () => WasmMemory): GuestMemory {
  const view = (at: number, length: number): DataView => {
    const { buffer } = memory()
    const start = at >>> 0
    if (start + length > buffer.byteLength) throw new WasiError(errno.fault)
    return new DataView(buffer, start, length)
  }
  const u32 = (at: number): number => view(at, 4).getUint32(0, true)
  const bytes = (at: number, length: number): Uint8Array => {
    const { buffer, byteOffset, byteLength } = view(at, length >>> 0)
    return new Uint8Array(buffer, byteOffset, byteLength)
  }
  return {
    u8: (at) => view(at, 1).getUint8(0),
    u16: (at) => view(at, 2).getUint16(0, true),
    u32,
    u64: (at) => view(at, 8).getBigUint64(0, true),
    setU8: (at, value) => view(at, 1).setUint8(0, value),
    setU16: (at, value) => view(at, 2).setUint16(0, value, true),
    setU32: (at, value) => view(at, 4).setUint32(0, value, true),
    setU64: (at, value) => view(at, 8).setBigUint64(0, BigInt(value), true),
    bytes,
    text(at, length) {
      if (length >>> 0 > longestText) throw new WasiError(errno.nametoolong)
      const text = Buffer.from(bytes(at, length)).toString()
      if (text.includes('\0')) throw new WasiError(errno.inval)
      return text
    },
    pieces(at, count) {
      if (count >>> 0 > mostPieces) throw new WasiError(errno.inval)
      return Array.from({ length: count }, (_, index) => bytes(u32(at + index * 8), u32(at + index * 8 + 4)))
    },
  }
}

/** The target of a descriptor. */
export type Descriptor =
  | { readonly kind: 'input'; at: number }
  | { readonly kind: 'output'; readonly stream: 'stdout' | 'stderr' }
  | {
      readonly kind: 'folder'
      readonly folder: FolderEntry
      /** The preopen name, for folders that exist from the start. */
      readonly preopen?: string
    }
  | {
      readonly kind: 'file'
      readonly file: FileEntry
      at: number
      readonly mayRead: boolean
      readonly mayWrite: boolean
      append: boolean
    }

export type OpenFile = Extract<Descriptor, { kind: 'file' }>

/** The descriptors of one program. An unknown number is EBADF. */
interface Descriptors {
  get(fd: number): Descriptor
  folder(fd: number): FolderEntry
  file(fd: number): OpenFile
  add(descriptor: Descriptor): number
  close(fd: number): void
  move(from: number, to: number): void
}

const most = 1_024

export function createDescriptors(root: FolderEntry): Descriptors {
  const open = new Map<number, Descriptor>([
    [0, { kind: 'input', at: 0 }],
    [1, { kind: 'output', stream: 'stdout' }],
    [2, { kind: 'output', stream: 'stderr' }],
    [3, { kind: 'folder', folder: root, preopen: '/work' }],
    // The usual C library resolves relative paths from `/`.
    [4, { kind: 'folder', folder: root, preopen: '/' }],
  ])
  const get = (fd: number): Descriptor => {
    const found = open.get(fd)
    if (found === undefined) throw new WasiError(errno.badf)
    return found
  }
  return {
    get,
    folder(fd) {
      const found = get(fd)
      if (found.kind !== 'folder') throw new WasiError(errno.notdir)
      return found.folder
    },
    file(fd) {
      const found = get(fd)
      if (found.kind === 'folder') throw new WasiError(errno.isdir)
      if (found.kind !== 'file') throw new WasiError(errno.spipe)
      return found
    },
    add(descriptor) {
      if (open.size >= most) throw new WasiError(errno.mfile)
      let fd = 0
      while (open.has(fd)) fd += 1
      open.set(fd, descriptor)
      return fd
    },
    close(fd) {
      get(fd)
      open.delete(fd)
    },
    move(from, to) {
      const found = get(from)
      get(to)
      open.delete(from)
      open.set(to, found)
    },
  }
}

/** Time as a module sees it, in nanoseconds. */
export interface ModuleClock {
  /** By clock id; undefined for an unknown one. */
  read(id: number): bigint | undefined
  wait(ns: bigint): void
}

const [realtime, monotonic, processTime, threadTime] = [0, 1, 2, 3]
const nsPerMs = 1_000_000
const longestMs = 2_147_483_647

/** A fixed clock advances only by what the module itself waits, so that waiting ends. */
export function createModuleClock(deterministic: Deterministic | undefined): ModuleClock {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let waited = 0n
  const now = (): bigint => process.hrtime.bigint()
  const cpu = (): bigint => {
    const { user, system } = process.threadCpuUsage()
    return BigInt(user + system) * 1_000n
  }
  return {
    read(id) {
      if (id === realtime) return BigInt(Math.round((deterministic?.nowMs ?? Date.now()) * nsPerMs))
      if (id === monotonic) return deterministic === undefined ? now() : waited
      if (id === processTime || id === threadTime) return deterministic === undefined ? cpu() : 0n
      return undefined
    },
    wait(ns) {
      waited += ns
      Atomics.wait(cell, 0, 0, Math.min(Number(ns) / nsPerMs, longestMs))
    },
  }
}
