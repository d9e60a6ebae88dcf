import { Buffer } from 'node:buffer'
import { createHash, randomFillSync } from 'node:crypto'

/** Fills a buffer with random bytes. */
export type RandomFill = (bytes: Uint8Array) => void

/** Random bytes of the system or, with a seed, a reproducible sequence. */
export function createRandom(seed: number | undefined): RandomFill {
  if (seed === undefined) return (bytes) => void randomFillSync(bytes)
  let [block, at, count] = [Buffer.alloc(0), 0, 0]
  return (bytes) => {
    for (let index = 0; index < bytes.length; index++) {
      if (at === block.length) {
        block = createHash('sha256').update(`gantry ${seed} ${count++}`).digest()
        at = 0
      }
      bytes[index] = block[at++] ?? 0
    }
  }
}
