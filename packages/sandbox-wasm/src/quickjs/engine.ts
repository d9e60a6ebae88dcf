import type { QuickJSWASMModule } from 'quickjs-emscripten-core'
import { pageBytes, type WasmMemory, webAssembly } from '../guest/web-assembly.ts'
import { type CompiledQuickjs, compileQuickjs } from './compile.ts'

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
  // Its types tell of a module around the build, its code has none.
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
