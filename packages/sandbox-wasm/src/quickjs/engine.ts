import { readFile } from 'node:fs/promises'
import type { QuickJSWASMModule } from 'quickjs-emscripten-core'
import { sectionIds, sectionsOf } from '../guest/binary.ts'
import { pageBytes, type WasmMemory, type WasmModule, webAssembly } from '../guest/web-assembly.ts'

/** QuickJS in a WebAssembly instance of its own. */
export interface Engine {
  readonly quickjs: QuickJSWASMModule
  readonly memory: WasmMemory
  /** Sets how much more memory than at its start it may have. QuickJS itself does not count what it has, only asks. */
  limit(bytes: number): void
  /** Whether it was refused more since the limit was set first. */
  refused: boolean
}

const maximumPages = 32_768

/** Loads QuickJS, compiled here when it was not elsewhere; the answer makes instances, which share nothing but that code. */
export async function loadEngines(compiled?: CompiledQuickjs): Promise<() => Promise<Engine>> {
  const [core, { default: build }, { module: wasmModule, initial }] = await Promise.all([
    import('quickjs-emscripten-core'),
    import('@jitl/quickjs-ng-wasmfile-release-sync'),
    compiled ?? compileQuickjs(),
  ])
  // Its types describe a module around the build; its code has none.
  const variant = build as unknown as typeof build.default
  return async () => {
    const memory = new webAssembly.Memory({ initial, maximum: maximumPages })
    const grow = memory.grow.bind(memory)
    let most = maximumPages * pageBytes
    memory.grow = (pages) => {
      if (memory.buffer.byteLength + pages * pageBytes > most) {
        engine.refused = true
        throw new RangeError('The memory limit is reached.')
      }
      return grow(pages)
    }
    const made = core.newVariant(variant, { wasmModule, wasmMemory: memory })
    const quickjs = await core.newQuickJSWASMModuleFromVariant(made)
    const limit = (bytes: number): void => {
      most = initial * pageBytes + bytes
    }
    const engine: Engine = { quickjs, memory, limit, refused: false }
    return engine
  }
}

/** QuickJS, compiled; can be handed to threads, which then run the same code. */
export interface CompiledQuickjs {
  readonly module: WasmModule
  /** Pages of memory that an instance starts with. */
  readonly initial: number
}

/** Data and stack of the build take 82 pages; what is left of these is enough for most programs. */
const initialPages = 112

export async function compileQuickjs(): Promise<CompiledQuickjs> {
  const file = new URL(import.meta.resolve('@jitl/quickjs-ng-wasmfile-release-sync/wasm'))
  const { bytes, initial } = withSmallMemory(await readFile(file))
  return { module: await webAssembly.compile(bytes), initial }
}

/** What the build says when it imports its memory: 16 MiB at first, 2 GiB at most. */
const usualImport = [2, 1, 0x80, 0x02, 0x80, 0x80, 0x02]
const usualPages = 256

/**
 * With less memory to start with, putting it back to what it was takes half the time. The number keeps its two bytes, so
 * nothing in the module moves.
 */
function withSmallMemory(bytes: Buffer): { readonly bytes: Uint8Array; readonly initial: number } {
  const section = sectionsOf(bytes).find(({ id }) => id === sectionIds.import)
  const at = bytes.subarray(section?.body, section?.end).indexOf(Buffer.from(usualImport))
  if (section === undefined || at < 0) return { bytes, initial: usualPages }
  const copy = new Uint8Array(bytes)
  copy.set([0x80 | initialPages, 0], section.body + at + 2)
  return { bytes: copy, initial: initialPages }
}

/** A memory as it was at one moment. */
interface MemoryImage {
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
