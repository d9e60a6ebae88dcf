import { checkPath } from '../../file-path.ts'
import type { Outcome, SandboxJob } from '../../runtime.ts'

export type Collected = Pick<Outcome, 'files' | 'skipped'>

/** Files as a host brings them out. It is not trusted to keep to the limits. */
export interface Collection {
  /** Throws when there is more than was asked for. */
  file(payload: Buffer): void
  skipped(payload: Buffer): void
  result(): Collected
}

const mostSkipped = 200

export function createCollection({ collect }: SandboxJob): Collection {
  const files = new Map<string, Uint8Array>()
  const skipped: { path: string; reason: string }[] = []
  let bytesLeft = collect?.bytes ?? 0
  const skip = (path: string, reason: string): void => {
    if (skipped.length < mostSkipped) skipped.push({ path: path.toWellFormed().slice(0, 200), reason })
  }
  return {
    file(payload) {
      const length = payload.readUInt16LE(0)
      const path = payload.subarray(2, 2 + length).toString()
      const bytes = payload.subarray(2 + length)
      bytesLeft -= bytes.length
      if (bytesLeft < 0 || files.size >= (collect?.files ?? 0)) throw new RangeError('A host brings out too much.')
      const fault = checkPath(path)
      if (fault === undefined) files.set(path, new Uint8Array(bytes))
      else skip(path, fault)
    },
    skipped(payload) {
      const { path, reason } = JSON.parse(payload.toString()) as { path: unknown; reason: unknown }
      skip(String(path), String(reason).slice(0, 200))
    },
    result: () => ({ files, skipped }),
  }
}
