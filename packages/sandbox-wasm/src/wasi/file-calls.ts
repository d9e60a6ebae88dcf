import { type Entry, type FolderEntry, type Segments, segmentsOf } from '../guest/workspace.ts'
import {
  type Calls,
  type Descriptor,
  errno,
  ModuleEnd,
  type ModuleProgram,
  type OpenFile,
  WasiError,
} from './program.ts'

const fileTypes = { input: 2, output: 2, folder: 3, file: 4 } as const
const allRights = 0x1fff_ffffn
const appendFlag = 1
const [direntBytes, filestatBytes] = [24, 64]
/** The exit code of a killed program, as in a shell. */
const killedCode = 137
/** Larger numbers do not fit into a file size. */
const longest = BigInt(Number.MAX_SAFE_INTEGER)

/** Calls on open descriptors. */
export function fileCalls(program: ModuleProgram): Calls {
  const { memory, descriptors, workspace } = program
  const readAt = (file: OpenFile, pieces: Uint8Array[], from: number): number => {
    if (!file.mayRead) throw new WasiError(errno.notcapable)
    return copyInto(pieces, file.file.bytes.subarray(0, file.file.size).subarray(Math.min(from, file.file.size)))
  }
  const writeAt = (file: OpenFile, pieces: Uint8Array[], from: number): number => {
    if (!file.mayWrite) throw new WasiError(errno.notcapable)
    let at = from
    for (const piece of pieces) {
      workspace.write(file.file, at, piece)
      at += piece.length
    }
    return at - from
  }
  const print = (stream: 'stdout' | 'stderr', pieces: Uint8Array[]): number => {
    for (const piece of pieces) program.outlet.write(stream, piece)
    const { flooded } = program.outlet
    if (flooded !== undefined) throw new ModuleEnd(killedCode, `${flooded}Bytes`)
    return pieces.reduce((sum, { length }) => sum + length, 0)
  }
  return {
    fd_advise: (fd: number) => void descriptors.file(fd),
    fd_allocate(fd: number, offset: bigint, length: bigint) {
      const { file, mayWrite } = descriptors.file(fd)
      const size = sizeOf(offset + length)
      if (!mayWrite) return errno.notcapable
      if (size > file.size) workspace.resize(file, size)
      return undefined
    },
    fd_close: (fd: number) => descriptors.close(fd),
    fd_datasync: (fd: number) => void descriptors.get(fd),
    fd_sync: (fd: number) => void descriptors.get(fd),
    fd_fdstat_get(fd: number, result: number) {
      const found = descriptors.get(fd)
      memory.bytes(result, 24).fill(0)
      memory.setU8(result, fileTypes[found.kind])
      memory.setU16(result + 2, found.kind === 'file' && found.append ? appendFlag : 0)
      memory.setU64(result + 8, allRights)
      memory.setU64(result + 16, allRights)
    },
    fd_fdstat_set_flags(fd: number, flags: number) {
      const found = descriptors.get(fd)
      if (found.kind === 'file') found.append = (flags & appendFlag) !== 0
    },
    fd_filestat_get: (fd: number, result: number) => putStats(memory, result, statsOf(descriptors.get(fd))),
    fd_filestat_set_size(fd: number, size: bigint) {
      const found = descriptors.file(fd)
      if (!found.mayWrite) return errno.notcapable
      workspace.resize(found.file, sizeOf(size))
      return undefined
    },
    fd_read(fd: number, list: number, count: number, result: number) {
      const found = descriptors.get(fd)
      const pieces = memory.pieces(list, count)
      const read = readFrom(found, pieces)
      memory.setU32(result, read)
    },
    fd_write(fd: number, list: number, count: number, result: number) {
      const found = descriptors.get(fd)
      const pieces = memory.pieces(list, count)
      memory.setU32(result, writeTo(found, pieces))
    },
    fd_pread(fd: number, list: number, count: number, offset: bigint, result: number) {
      memory.setU32(result, readAt(descriptors.file(fd), memory.pieces(list, count), sizeOf(offset)))
    },
    fd_pwrite(fd: number, list: number, count: number, offset: bigint, result: number) {
      memory.setU32(result, writeAt(descriptors.file(fd), memory.pieces(list, count), sizeOf(offset)))
    },
    fd_seek(fd: number, offset: bigint, whence: number, result: number) {
      const found = descriptors.file(fd)
      const start = [0, found.at, found.file.size][whence]
      if (start === undefined) return errno.inval
      found.at = sizeOf(BigInt(start) + offset)
      memory.setU64(result, found.at)
      return undefined
    },
    fd_tell: (fd: number, result: number) => memory.setU64(result, descriptors.file(fd).at),
    fd_renumber: (from: number, to: number) => descriptors.move(from, to),
    fd_prestat_get(fd: number, result: number) {
      const name = preopenOf(descriptors.get(fd))
      memory.setU32(result, 0)
      memory.setU32(result + 4, name.length)
    },
    fd_prestat_dir_name(fd: number, at: number, length: number) {
      const name = preopenOf(descriptors.get(fd))
      if (length < name.length) return errno.nametoolong
      memory.bytes(at, name.length).set(Buffer.from(name))
      return undefined
    },
    fd_readdir(fd: number, at: number, length: number, cookie: bigint, result: number) {
      const listed = listing(descriptors.folder(fd).entries, sizeOf(cookie), length >>> 0)
      memory.bytes(at, length).set(listed)
      memory.setU32(result, listed.length)
    },
  }

  function readFrom(found: Descriptor, pieces: Uint8Array[]): number {
    if (found.kind === 'folder') throw new WasiError(errno.isdir)
    if (found.kind === 'output') throw new WasiError(errno.badf)
    const read =
      found.kind === 'file' ? readAt(found, pieces, found.at) : copyInto(pieces, program.stdin.subarray(found.at))
    found.at += read
    return read
  }

  function writeTo(found: Descriptor, pieces: Uint8Array[]): number {
    if (found.kind === 'folder') throw new WasiError(errno.isdir)
    if (found.kind === 'input') throw new WasiError(errno.badf)
    if (found.kind === 'output') return print(found.stream, pieces)
    const from = found.append ? found.file.size : found.at
    const written = writeAt(found, pieces, from)
    found.at = from + written
    return written
  }
}

/** Copies as much as fits and returns the number of bytes. */
function copyInto(pieces: readonly Uint8Array[], source: Uint8Array): number {
  let done = 0
  for (const piece of pieces) {
    const part = source.subarray(done, done + piece.length)
    piece.set(part)
    done += part.length
  }
  return done
}

/** A file offset or size. */
function sizeOf(value: bigint): number {
  if (value < 0n || value > longest) throw new WasiError(errno.inval)
  return Number(value)
}

function preopenOf(found: Descriptor): string {
  if (found.kind !== 'folder' || found.preopen === undefined) throw new WasiError(errno.badf)
  return found.preopen
}

/** The properties of an entry that a module sees. */
interface Stats {
  readonly id: number
  readonly type: number
  readonly size: number
  readonly changedMs: number
}

function entryStats(entry: Entry): Stats {
  const size = entry.kind === 'file' ? entry.size : 0
  return { id: entry.id, type: fileTypes[entry.kind], size, changedMs: entry.changedMs }
}

function statsOf(found: Descriptor): Stats {
  if (found.kind === 'file') return entryStats(found.file)
  if (found.kind === 'folder') return entryStats(found.folder)
  return { id: 0, type: fileTypes[found.kind], size: 0, changedMs: 0 }
}

function putStats(memory: ModuleProgram['memory'], at: number, { id, type, size, changedMs }: Stats): void {
  memory.bytes(at, filestatBytes).fill(0)
  memory.setU64(at + 8, id)
  memory.setU8(at + 16, type)
  memory.setU64(at + 24, 1)
  memory.setU64(at + 32, size)
  for (const time of [40, 48, 56]) memory.setU64(at + time, BigInt(Math.round(changedMs)) * 1_000_000n)
}

/** Directory entries from an index on, concatenated and truncated to the buffer. */
function listing(entries: ReadonlyMap<string, Entry>, from: number, room: number): Uint8Array {
  const parts: Buffer[] = []
  let bytes = 0
  for (const [index, [name, entry]] of [...entries].entries()) {
    if (index < from) continue
    if (bytes >= room) break
    const named = Buffer.from(name)
    const head = Buffer.alloc(direntBytes)
    head.writeBigUInt64LE(BigInt(index + 1), 0)
    head.writeBigUInt64LE(BigInt(entry.id), 8)
    head.writeUInt32LE(named.length, 16)
    head.writeUInt8(fileTypes[entry.kind], 20)
    parts.push(head, named)
    bytes += head.length + named.length
  }
  return Buffer.concat(parts).subarray(0, room)
}

const openFlags = { create: 1, folder: 2, exclusive: 4, truncate: 8 } as const
const rights = { read: 1n << 1n, write: 1n << 6n } as const

/** Calls on paths. A path that leaves its folder is ENOTCAPABLE; links do not exist. */
export function pathCalls({ memory, descriptors, workspace }: ModuleProgram): Calls {
  const place = (fd: number, at: number, length: number): readonly [FolderEntry, Segments] => {
    const folder = descriptors.folder(fd)
    const path = memory.text(at, length)
    const segments = path.startsWith('/') ? undefined : segmentsOf(path)
    if (segments === undefined) throw new WasiError(errno.notcapable)
    return [folder, segments]
  }
  const openEntry = (
    [folder, path]: readonly [FolderEntry, Segments],
    flags: number,
    asked: bigint,
    modes: number,
  ): number => {
    const has = (flag: number): boolean => (flags & flag) !== 0
    const entry = workspace.find(folder, path)
    if (entry?.kind === 'folder') {
      if (has(openFlags.exclusive)) throw new WasiError(errno.exist)
      if ((asked & rights.write) !== 0n && !has(openFlags.folder)) throw new WasiError(errno.isdir)
      return descriptors.add({ kind: 'folder', folder: entry })
    }
    if (has(openFlags.folder)) throw new WasiError(entry === undefined ? errno.noent : errno.notdir)
    const make = !has(openFlags.create) ? 'never' : has(openFlags.exclusive) ? 'must' : 'may'
    const file = workspace.openFile(folder, path, make)
    if (has(openFlags.truncate)) workspace.resize(file, 0)
    const [mayRead, mayWrite] = [(asked & rights.read) !== 0n, (asked & rights.write) !== 0n]
    return descriptors.add({ kind: 'file', file, at: 0, mayRead, mayWrite, append: (modes & appendFlag) !== 0 })
  }
  return {
    path_create_directory: (fd: number, at: number, length: number) => {
      workspace.makeFolder(...place(fd, at, length))
    },
    path_filestat_get(fd: number, _flags: number, at: number, length: number, result: number) {
      const entry = workspace.find(...place(fd, at, length))
      if (entry === undefined) return errno.noent
      putStats(memory, result, entryStats(entry))
      return undefined
    },
    path_open(
      fd: number,
      _lookup: number,
      at: number,
      length: number,
      flags: number,
      asked: bigint,
      _inherited: bigint,
      modes: number,
      result: number,
    ) {
      memory.setU32(result, openEntry(place(fd, at, length), flags, asked, modes))
    },
    path_remove_directory: (fd: number, at: number, length: number) =>
      workspace.remove(...place(fd, at, length), 'folder'),
    path_unlink_file: (fd: number, at: number, length: number) => workspace.remove(...place(fd, at, length), 'file'),
    path_rename: (fd: number, at: number, length: number, toFd: number, to: number, toLength: number) =>
      workspace.rename(...place(fd, at, length), ...place(toFd, to, toLength)),
    path_link: () => errno.notsup,
    path_symlink: () => errno.notsup,
    path_readlink: () => errno.inval,
  }
}
