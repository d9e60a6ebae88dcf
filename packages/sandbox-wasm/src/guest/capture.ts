import type { Captured } from '@gantry/core/internal/runtimes/runtime'

/** Keeps what a program writes on one stream, up to a limit, and counts all of it. */
export interface Capture {
  /** Takes bytes in and gives back those of them that are kept. */
  push(bytes: Uint8Array): Uint8Array
  /** Says how much was written in all, when it was counted elsewhere. */
  count(total: number): void
  readonly total: number
  captured(): Captured
}

export function createCapture(limit: number): Capture {
  const chunks: Uint8Array[] = []
  let kept = 0
  let total = 0
  return {
    push(bytes) {
      total += bytes.length
      const part = bytes.subarray(0, limit - kept)
      if (part.length > 0) chunks.push(part)
      kept += part.length
      return part
    },
    count(written) {
      total = Math.max(total, written)
    },
    get total() {
      return total
    },
    captured: () => ({ bytes: Buffer.concat(chunks, kept), total, truncated: total > kept }),
  }
}
