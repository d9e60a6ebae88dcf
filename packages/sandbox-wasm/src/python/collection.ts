import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '@gantry/sandbox/internal/languages/file-path'

export type Collected = Pick<Outcome, 'files' | 'skipped'>

/** Files as a host brings them out. It is not trusted to keep to the limits: everything here throws when it does not. */
export interface Collection {
  /** Names the next file and how long it is. */
  file(payload: Buffer): void
  /** A piece of the file that was named last. */
  content(payload: Buffer): void
  skipped(payload: Buffer): void
  /** Throws when the last file is not whole. */
  check(): void
  result(): Collected
}

const keptSkipped = 200
/** More than a host looks at. */
const mostSkipped = 20_000

export function createCollection({ collect }: Pick<SandboxJob, 'collect'>): Collection {
  const files = new Map<string, Uint8Array>()
  const skipped: { path: string; reason: string }[] = []
  let [filesLeft, bytesLeft, skippedLeft] = [collect?.files ?? 0, collect?.bytes ?? 0, mostSkipped]
  let file = new Uint8Array(0)
  let filled = 0
  const skip = (path: string, reason: string): void => {
    if (skipped.length < keptSkipped) skipped.push({ path: path.toWellFormed().slice(0, 200), reason })
  }
  const check = (): void => {
    if (filled < file.length) throw new RangeError('A host brings out half a file.')
  }
  return {
    file(payload) {
      check()
      const { path, bytes } = JSON.parse(payload.toString()) as { path: unknown; bytes: unknown }
      if (typeof path !== 'string' || !isLength(bytes)) throw new RangeError('A host names no file.')
      bytesLeft -= bytes
      filesLeft -= 1
      if (bytesLeft < 0 || filesLeft < 0) throw new RangeError('A host brings out too much.')
      file = new Uint8Array(bytes)
      filled = 0
      const fault = checkPath(path)
      if (fault === undefined) files.set(path, file)
      else skip(path, fault)
    },
    content(payload) {
      if (payload.length === 0) throw new RangeError('A host brings out nothing.')
      file.set(payload, filled)
      filled += payload.length
    },
    skipped(payload) {
      skippedLeft -= 1
      if (skippedLeft < 0) throw new RangeError('A host skips too much.')
      const { path, reason } = JSON.parse(payload.toString()) as { path: unknown; reason: unknown }
      skip(String(path), String(reason).slice(0, 200))
    },
    check,
    result: () => ({ files, skipped }),
  }
}

function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}
