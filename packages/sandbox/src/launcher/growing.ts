/** Bytes that come in pieces of any size, kept as one: thousands of tiny pieces cost no more than a large one. */
export interface Growing {
  push(piece: Uint8Array): void
  readonly length: number
  /** What was pushed; valid until the next push. */
  bytes(): Buffer
  clear(): void
}

export function createGrowing(): Growing {
  let room = Buffer.alloc(0)
  let length = 0
  return {
    push(piece) {
      if (length + piece.length > room.length) {
        const larger = Buffer.allocUnsafe(Math.max(256, room.length * 2, length + piece.length))
        room.copy(larger, 0, 0, length)
        room = larger
      }
      room.set(piece, length)
      length += piece.length
    },
    get length() {
      return length
    },
    bytes: () => room.subarray(0, length),
    clear() {
      room = Buffer.alloc(0)
      length = 0
    },
  }
}
