import { type FolderEntry, type Segments, segmentsOf } from '../guest/workspace.ts'
import { errno, WasiError } from './errno.ts'
import { entryStats, putStats } from './file-calls.ts'
import type { Calls, ModuleProgram } from './program.ts'

const openFlags = { create: 1, folder: 2, exclusive: 4, truncate: 8 } as const
const rights = { read: 1n << 1n, write: 1n << 6n } as const
const appendFlag = 1

/** Calls on paths. A path that leads out of its folder is ENOTCAPABLE; links there are none. */
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
