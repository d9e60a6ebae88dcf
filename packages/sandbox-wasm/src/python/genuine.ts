const { prototype } = Object.getPrototypeOf(Uint8Array) as { prototype: Uint8Array }
const { call } = Function.prototype

function getter<T>(name: string): (view: unknown) => T {
  return call.bind(Object.getOwnPropertyDescriptor(prototype, name)?.get as () => T)
}

const bufferOf = getter<ArrayBuffer>('buffer')
const startOf = getter<number>('byteOffset')

/** Nothing that a host sends is longer than this, and whoever started it takes nothing that is. */
export const pieceBytes = 65_536

/**
 * Copies bytes to where a program wants them. What it gives for that may be any object, whose own `set` would then hold
 * bytes of the host in its hands; so the language's own is used, which throws for anything but a typed array.
 */
export const putBytes: (into: Uint8Array, bytes: Uint8Array, offset: number) => void = call.bind(prototype.set)

/** The bytes that a program gives, seen where they lie; throws for anything but a typed array. */
export function viewOf(given: Uint8Array, offset: number, length: number): Uint8Array {
  return new Uint8Array(bufferOf(given), startOf(given) + offset, length)
}

/** Goes through bytes in pieces that fit in a frame. */
export function inPieces(bytes: Uint8Array, take: (piece: Uint8Array) => void): void {
  for (let done = 0; done < bytes.length; done += pieceBytes) take(bytes.subarray(done, done + pieceBytes))
}
