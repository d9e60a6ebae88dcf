import { readFileSync } from 'node:fs'
import type { QuickJSWASMModule } from 'quickjs-emscripten-core'
import { sectionIds, sectionsOf } from '../binary.ts'
import { pageBytes, type WasmMemory, webAssembly } from '../web-assembly.ts'

/** QuickJS in a WebAssembly instance of its own. */
export interface Engine {
  readonly quickjs: QuickJSWASMModule
  readonly memory: WasmMemory
  /** Sets how much more memory than at its start it may have. QuickJS itself does not count what it has, only asks. */
  limit(bytes: number): void
  /** Whether it was refused more since the limit was set first. */
  refused: boolean
}

/** Data and stack of the build take 82 pages; what is left of these is enough for most programs. */
const initialPages = 112
const maximumPages = 32_768

/** Loads QuickJS; the answer makes instances of it, which share nothing but compiled code. */
export async function loadEngines(): Promise<() => Promise<Engine>> {
  const [core, { default: build }] = await Promise.all([
    import('quickjs-emscripten-core'),
    import('@jitl/quickjs-ng-wasmfile-release-sync'),
  ])
  // Its types tell of a module around the build, its code has none.
  const variant = build as unknown as typeof build.default
  const file = new URL(import.meta.resolve('@jitl/quickjs-ng-wasmfile-release-sync/wasm'))
  const { bytes, initial } = withSmallMemory(readFileSync(file))
  const wasmModule = new webAssembly.Module(bytes)
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
