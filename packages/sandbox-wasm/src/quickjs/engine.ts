import { readFile } from 'node:fs/promises'
import type { CustomizeVariantOptions, QuickJSSyncVariant, QuickJSWASMModule } from 'quickjs-emscripten-core'
import type { Deterministic } from '../channel/messages.ts'
import { pageBytes, sectionIds, sectionsOf, type WasmMemory, type WasmModule, webAssembly } from '../guest/binary.ts'

/** QuickJS in its own WebAssembly instance. */
export interface Engine {
  readonly quickjs: QuickJSWASMModule
  readonly memory: WasmMemory
  /** Sets how much memory beyond its start it may use. QuickJS itself does not count its memory; it only requests more. */
  limit(bytes: number): void
  /** Whether memory was refused since the limit was first set. */
  refused: boolean
}

const maximumPages = 32_768

/** Loads QuickJS, compiling it when no compiled module is given; the result creates instances that share only the code. */
export async function loadEngines(compiled?: CompiledQuickjs): Promise<() => Promise<Engine>> {
  const [core, { default: build }, { module: wasmModule, initial }] = await Promise.all([
    import('quickjs-emscripten-core'),
    import('@jitl/quickjs-ng-wasmfile-release-sync'),
    compiled ?? compileQuickjs(),
  ])
  // The types describe a module around the build; the code has none.
  const variant = build as unknown as QuickJSSyncVariant
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
    const made = core.newVariant(variant, { wasmModule, wasmMemory: memory } as CustomizeVariantOptions)
    const quickjs = await core.newQuickJSWASMModuleFromVariant(made)
    const limit = (bytes: number): void => {
      most = initial * pageBytes + bytes
    }
    const engine: Engine = { quickjs, memory, limit, refused: false }
    return engine
  }
}

/** Compiled QuickJS; can be posted to threads, which then run the same code. */
export interface CompiledQuickjs {
  readonly module: WasmModule
  /** Initial memory pages of an instance. */
  readonly initial: number
}

/** Data and stack of the build take 82 pages; the rest is enough for most programs. */
const initialPages = 112

export async function compileQuickjs(): Promise<CompiledQuickjs> {
  const file = new URL(import.meta.resolve('@jitl/quickjs-ng-wasmfile-release-sync/wasm'))
  const { bytes, initial } = withSmallMemory(await readFile(file))
  return { module: await webAssembly.compile(bytes), initial }
}

/** The memory import of the build: 16 MiB initially, 2 GiB at most. */
const usualImport = [2, 1, 0x80, 0x02, 0x80, 0x80, 0x02]
const usualPages = 256

/**
 * With less initial memory, restoring it takes half the time. The number keeps its two bytes, so that nothing in the
 * module moves.
 */
function withSmallMemory(bytes: Buffer): { readonly bytes: Uint8Array; readonly initial: number } {
  const section = sectionsOf(bytes).find(({ id }) => id === sectionIds.import)
  const at = bytes.subarray(section?.body, section?.end).indexOf(Buffer.from(usualImport))
  if (section === undefined || at < 0) return { bytes, initial: usualPages }
  const copy = new Uint8Array(bytes)
  copy.set([0x80 | initialPages, 0], section.body + at + 2)
  return { bytes: copy, initial: initialPages }
}

/** A memory image at one moment. */
interface MemoryImage {
  /** Restores every byte; false when the memory has grown, which cannot be undone. */
  restore(): boolean
}

const nothing = Buffer.alloc(pageBytes)

/**
 * Takes an image of a memory. Most of its pages are empty, and a program writes to few: so empty pages are not stored, and
 * only pages that differ are written, which takes half the time of writing all.
 */
export function takeImage(memory: WasmMemory): MemoryImage {
  const { buffer } = memory
  const pages = Array.from({ length: buffer.byteLength / pageBytes }, (_, index) => {
    const page = Buffer.from(buffer, index * pageBytes, pageBytes)
    return { page, before: page.equals(nothing) ? nothing : Buffer.from(page) }
  })
  return {
    restore() {
      // A memory that grows gets a new buffer.
      if (memory.buffer !== buffer) return false
      for (const { page, before } of pages) if (!page.equals(before)) page.set(before)
      return true
    },
  }
}

/**
 * The time that QuickJS sees: it reads `Date.now` and `performance.now` of its thread, which runs nothing else that needs
 * them, so both are replaced there.
 */
export interface GuestClock {
  /** The machine's clock, for limits. */
  readonly monotonic: () => number
  /** Starts the clock of a program: running from now, or fixed. */
  begin(deterministic: Deterministic | undefined): void
  /** Advances the clock of a deterministic program; it never goes back. */
  advance(nowMs: number): void
  /** Between programs the time is 0, so that contexts are the same whenever they are created. */
  end(): void
}

export function installClock(): GuestClock {
  const date = Date.now
  const monotonic = performance.now.bind(performance)
  let [wallMs, elapsedMs] = [date, () => 0]
  let standing: { readonly now: number; readonly started: number } | undefined
  const stand = (now: number, started: number): void => {
    standing = { now, started }
    wallMs = () => now
    elapsedMs = () => now - started
  }
  Date.now = () => wallMs()
  performance.now = () => elapsedMs()
  // A program must not learn the host's time zone, and its results must not depend on it.
  Date.prototype.getTimezoneOffset = () => 0
  return {
    monotonic,
    begin(deterministic) {
      if (deterministic === undefined) {
        const started = monotonic()
        elapsedMs = () => monotonic() - started
      } else stand(deterministic.nowMs, deterministic.nowMs)
    },
    advance(nowMs) {
      if (standing !== undefined && nowMs > standing.now) stand(nowMs, standing.started)
    },
    end() {
      standing = undefined
      wallMs = date
      elapsedMs = () => 0
    },
  }
}

/** Timers of one program; the guest keeps their callbacks, the host only their due times. */
export interface Timers {
  /** Throws when there are too many. */
  set(id: number, due: number): void
  clear(id: number): void
  /** The timer that is due first; of several with the same time the one that was set first. */
  next(): { readonly id: number; readonly due: number } | undefined
}

/** More timers are a mistake or an attack, and would make the search for the next one slow. */
const mostTimers = 10_000

export function createTimers(): Timers {
  const dues = new Map<number, number>()
  return {
    set(id, due) {
      if (dues.size >= mostTimers) throw new RangeError(`more than ${mostTimers} timers`)
      dues.set(id, due)
    },
    clear: (id) => void dues.delete(id),
    next() {
      let first: { id: number; due: number } | undefined
      for (const [id, due] of dues) if (first === undefined || due < first.due) first = { id, due }
      return first
    },
  }
}
