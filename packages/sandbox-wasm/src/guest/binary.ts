/** Thrown for bytes that are not a WebAssembly module, or a module that is refused; the message has the reason. */
export class BinaryError extends Error {}

/** One section of a module: its id, its start, and the start and end of its content. */
export interface Section {
  readonly id: number
  readonly start: number
  readonly body: number
  readonly end: number
}

export const sectionIds = { type: 1, import: 2, table: 4, memory: 5 } as const

/** Limits of a memory or a table; in a binary they follow a byte of flags. */
export interface Limits {
  readonly flags: number
  readonly initial: number
  readonly maximum: number | undefined
}

/** Reads a part of a module byte by byte; a read beyond its end throws BinaryError. */
export interface BinaryReader {
  readonly at: number
  readonly done: boolean
  u8(): number
  /** A number in LEB128, of at most 32 bits. */
  u32(): number
  skip(count: number): void
  limits(): Limits
}

export function createReader(bytes: Uint8Array, from: number, end: number): BinaryReader {
  let at = from
  const u8 = (): number => {
    const byte = at < end ? bytes[at] : undefined
    if (byte === undefined) throw new BinaryError('the module ends too early')
    at += 1
    return byte
  }
  const u32 = (): number => {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = u8()
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) {
        if (value > 0xffff_ffff) break
        return value
      }
    }
    throw new BinaryError('a number in the module is too long')
  }
  return {
    get at() {
      return at
    },
    get done() {
      return at >= end
    },
    u8,
    u32,
    skip(count) {
      if (at + count > end) throw new BinaryError('the module ends too early')
      at += count
    },
    limits() {
      const flags = u8()
      if (flags > 1) throw new BinaryError('memories that are shared or of 64 bits are not supported')
      return { flags, initial: u32(), maximum: flags === 1 ? u32() : undefined }
    },
  }
}

const header = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]

/** The sections of a module in order. */
export function sectionsOf(bytes: Uint8Array): Section[] {
  if (header.some((byte, index) => bytes[index] !== byte)) throw new BinaryError('this is not a WebAssembly module')
  const reader = createReader(bytes, header.length, bytes.length)
  const sections: Section[] = []
  while (!reader.done) {
    const start = reader.at
    const id = reader.u8()
    const size = reader.u32()
    const body = reader.at
    reader.skip(size)
    sections.push({ id, start, body, end: reader.at })
  }
  return sections
}

/** A number in LEB128. */
export function encodeU32(value: number): number[] {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest]
    bytes.push((rest % 128) + 128)
  }
}

/** A section with its id and size. */
export function encodeSection(id: number, body: readonly number[]): Uint8Array {
  return Uint8Array.from([id, ...encodeU32(body.length), ...body])
}

/** The part of WebAssembly used here; the TypeScript library for Node does not declare it. */
export interface WebAssemblyApi {
  compile(bytes: Uint8Array): Promise<WasmModule>
  readonly Module: {
    new (bytes: Uint8Array): WasmModule
    imports(module: WasmModule): { readonly module: string; readonly name: string; readonly kind: string }[]
  }
  readonly Instance: new (
    module: WasmModule,
    imports: WasmImports,
  ) => { readonly exports: { readonly [name: string]: unknown } }
  readonly Memory: {
    new (size: { initial: number; maximum: number }): WasmMemory
    readonly prototype: WasmMemory
  }
}

export interface WasmModule {
  readonly [Symbol.toStringTag]?: string
}

export interface WasmMemory {
  readonly buffer: ArrayBuffer
  /** Returns the previous size in pages; throws when it cannot grow. */
  grow(pages: number): number
}

export interface WasmImports {
  readonly [module: string]: { readonly [name: string]: unknown }
}

// A program that imports these sources may declare the browser's own types for it.
export const webAssembly = Reflect.get(globalThis, 'WebAssembly') as unknown as WebAssemblyApi

/** Bytes in a page of linear memory. */
export const pageBytes = 65_536
