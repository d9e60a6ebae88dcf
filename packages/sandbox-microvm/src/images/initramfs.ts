/** A file of an initramfs; every folder above it is made too. */
export interface InitramfsFile {
  /** Without a leading slash. */
  readonly path: string
  readonly bytes: Uint8Array
  readonly mode: number
}

const folderMode = 0o040755
const fileMode = 0o100000

/** Writes an archive in the form that the kernel unpacks (`newc`): root's, without times, in the given order. */
export function initramfs(files: readonly InitramfsFile[]): Buffer {
  const folders = new Set(files.flatMap(({ path }) => foldersAbove(path)))
  let inode = 0
  const next = (): number => {
    inode += 1
    return inode
  }
  const parts = [
    ...[...folders].toSorted().map((path) => entry({ path, mode: folderMode, inode: next() })),
    ...files.map(({ path, bytes, mode }) => entry({ path, mode: fileMode | mode, inode: next(), bytes })),
    entry({ path: 'TRAILER!!!', mode: 0, inode: 0 }),
  ]
  return Buffer.concat(parts)
}

function foldersAbove(path: string): readonly string[] {
  const names = path.split('/').slice(0, -1)
  return names.map((_, index) => names.slice(0, index + 1).join('/'))
}

interface Entry {
  readonly path: string
  readonly mode: number
  readonly inode: number
  readonly bytes?: Uint8Array
}

function entry({ path, mode, inode, bytes = new Uint8Array() }: Entry): Buffer {
  const name = Buffer.from(`${path}\0`)
  const fields = [inode, mode, 0, 0, 1, 0, bytes.length, 0, 0, 0, 0, name.length, 0]
  const head = Buffer.from(`070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`)
  return Buffer.concat([padded(Buffer.concat([head, name])), padded(bytes)])
}

/** Names and contents end at a multiple of four. */
function padded(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
}
