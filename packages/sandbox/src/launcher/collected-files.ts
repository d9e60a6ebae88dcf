import { checkPath } from '../languages/file-path.ts'
import { collectRoom, fileOf } from './encode.ts'
import { FrameError } from './frames.ts'
import { createGrowing, type Growing } from './growing.ts'
import type { LaunchJob, RunEnd } from './launcher.ts'

/** More entries than the init sends are a fault of it, not of the program. */
const mostSkipped = 1_000
const longestPath = 1_280
const longestReason = 80

/** Files as they come out of a sandbox: paths checked, bounds kept, those left out that are as they were handed in. */
export interface Collected {
  file(path: Buffer): void
  bytes(bytes: Buffer): void
  skip(path: Buffer, reason: string): void
  result(): Pick<RunEnd, 'files' | 'skipped'>
}

export function createCollected(job: LaunchJob): Collected {
  const { files: inputs, collect } = job
  const all = new Map<string, Growing>()
  const skipped: { path: string; reason: string }[] = []
  const most = collectRoom(job)
  let current: Growing | undefined
  let count = 0
  let total = 0

  const skip = (path: string, reason: string): void => {
    if (skipped.length >= mostSkipped) throw new FrameError('The init skipped more files than it may.')
    skipped.push({ path: path.slice(0, longestPath), reason: reason.slice(0, longestReason) })
  }
  return {
    file(bytes) {
      if (++count > most.files) throw new FrameError('The init sent more files than it may.')
      const path = pathOf(bytes)
      current = undefined
      if (path === undefined) return skip(bytes.toString(), 'its name cannot be handed out')
      if (all.has(path)) throw new FrameError('The init sent a file twice.')
      current = createGrowing()
      all.set(path, current)
    },
    bytes(bytes) {
      total += bytes.length
      if (total > most.bytes || count === 0) throw new FrameError('The init sent more bytes than it may.')
      current?.push(bytes)
    },
    skip: (bytes, reason) => skip(bytes.toString(), reason),
    result() {
      const files = new Map<string, Uint8Array>()
      const over: { path: string; reason: string }[] = []
      let left = collect?.bytes ?? 0
      for (const [path, content] of all) {
        const bytes = content.bytes()
        if (isAsBefore(inputs?.get(path), bytes)) continue
        if (files.size >= (collect?.files ?? 0)) over.push({ path, reason: 'over the number of files' })
        else if (bytes.length > left) over.push({ path, reason: 'over the number of bytes' })
        else {
          files.set(path, bytes)
          left -= bytes.length
        }
      }
      return { files, skipped: [...skipped, ...over] }
    },
  }
}

function isAsBefore(input: ReturnType<NonNullable<LaunchJob['files']>['get']>, bytes: Buffer): boolean {
  if (input === undefined) return false
  return bytes.equals(fileOf(input).bytes)
}

/** A path below the workspace that is the same on every system, without anything that climbs or hides. */
function pathOf(bytes: Buffer): string | undefined {
  const path = bytes.toString()
  return path.includes('\uFFFD') || checkPath(path) !== undefined ? undefined : path
}
