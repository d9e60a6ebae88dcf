import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'

/** What is done with the files of control groups; a test puts a tree with the kernel's rules in its place. */
export interface CgroupFiles {
  /** Whether there is such a file, which tells what the kernel can do. */
  has(path: string): Promise<boolean>
  read(path: string): Promise<string>
  write(path: string, text: string): Promise<void>
  make(folder: string): Promise<void>
  /** Rejects with EBUSY while processes or groups are in it. */
  remove(folder: string): Promise<void>
  /** The names of the groups right below a group. */
  groups(folder: string): Promise<string[]>
}

export const kernelFiles: CgroupFiles = {
  has: (path) =>
    access(path).then(
      () => true,
      () => false,
    ),
  read: (path) => readFile(path, 'utf8'),
  write: (path, text) => writeFile(path, text, { flag: 'r+' }),
  make: (folder) => mkdir(folder, { mode: 0o755 }),
  remove: (folder) => rmdir(folder),
  groups: async (folder) =>
    (await readdir(folder, { withFileTypes: true })).flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])),
}
