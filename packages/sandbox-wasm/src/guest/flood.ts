const mebibyte = 1_048_576

/** A program that writes this much on a stream is ended: far more than is kept, and never so little that a chatty one falls. */
export function floodBytes(limit: number): number {
  return Math.max(limit * 8, 16 * mebibyte)
}
