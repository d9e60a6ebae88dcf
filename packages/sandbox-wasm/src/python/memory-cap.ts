import { pageBytes, type WasmMemory, webAssembly } from '../guest/web-assembly.ts'

/** Holds the linear memories of a process to a size. */
export interface MemoryCap {
  limit(bytes: number): void
  /** Whether memory was refused since the limit was set. */
  readonly refused: boolean
}

/** Stands between Pyodide and every growth of its memory, which it asks for by this one method. */
export function capMemory(): MemoryCap {
  const prototype = webAssembly.Memory.prototype
  const { grow } = prototype
  let [most, refused] = [Number.POSITIVE_INFINITY, false]
  prototype.grow = function (this: WasmMemory, pages: number): number {
    if (this.buffer.byteLength + pages * pageBytes > most) {
      refused = true
      throw new RangeError('The memory limit is reached.')
    }
    return grow.call(this, pages)
  }
  return {
    limit(bytes) {
      most = bytes
      refused = false
    },
    get refused() {
      return refused
    },
  }
}
