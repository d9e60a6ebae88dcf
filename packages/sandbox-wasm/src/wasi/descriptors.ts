import type { FileEntry, FolderEntry } from '../guest/workspace.ts'
import { errno, WasiError } from './errno.ts'

/** What a descriptor of a module stands for. */
export type Descriptor =
  | { readonly kind: 'input'; at: number }
  | { readonly kind: 'output'; readonly stream: 'stdout' | 'stderr' }
  | {
      readonly kind: 'folder'
      readonly folder: FolderEntry
      /** The name under which the module finds it, when it was there from the start. */
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

/** The descriptors of one program. A number that is not open is EBADF. */
export interface Descriptors {
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
    // Relative paths begin at `/` for the usual C library.
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
