import type { WorkspaceCode } from '../guest/workspace.ts'

/** Error numbers of WASI preview 1, as far as they are used. */
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
