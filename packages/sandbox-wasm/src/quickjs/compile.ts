import { readFile } from 'node:fs/promises'
import { sectionIds, sectionsOf } from '../guest/binary.ts'
import { type WasmModule, webAssembly } from '../guest/web-assembly.ts'

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
