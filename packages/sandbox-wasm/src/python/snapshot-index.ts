import type { SnapshotIndex } from './load.ts'

const blockBytes = 65_536
const zeros = Buffer.alloc(blockBytes)
/** Where the head of a snapshot of Pyodide says how long it is. */
const headLengthAt = 4

/** Finds the stretches of a kept memory that are not all zero. */
export function indexOf(snapshot: Uint8Array): SnapshotIndex {
  const bytes = Buffer.from(snapshot.buffer, snapshot.byteOffset, snapshot.byteLength)
  const headBytes = bytes.readUInt32LE(headLengthAt)
  const memory = bytes.subarray(headBytes)
  const stretches: [start: number, bytes: number][] = []
  for (let start = 0; start < memory.length; start += blockBytes) {
    const block = memory.subarray(start, start + blockBytes)
    if (block.equals(zeros.subarray(0, block.length))) continue
    const last = stretches.at(-1)
    if (last !== undefined && last[0] + last[1] === start) last[1] += block.length
    else stretches.push([start, block.length])
  }
  return { headBytes, memoryBytes: memory.length, stretches }
}
