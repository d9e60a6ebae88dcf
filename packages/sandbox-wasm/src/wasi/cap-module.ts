import {
  BinaryError,
  type BinaryReader,
  createReader,
  encodeSection,
  encodeU32,
  type Limits,
  type Section,
  sectionIds,
  sectionsOf,
} from '../guest/binary.ts'
import { pageBytes } from '../guest/web-assembly.ts'

/** A module that is larger is not compiled. */
export const mostModuleBytes = 16 * 1_048_576
const mostImports = 1_000
const mostTables = 16
/** Entries that a table may have, grown or not; large programs have some ten thousand functions. */
const mostTableEntries = 1_000_000
const mostPages = 65_536

/**
 * The module with its memory and tables held to a maximum. Refused, with BinaryError, is what would take memory elsewhere
 * or bring it in from outside: imports that are not functions, a second memory, memory of 64 bits or shared memory, and
 * types for a garbage-collected heap.
 */
export function capModule(bytes: Uint8Array, memoryBytes: number): Uint8Array {
  if (bytes.length > mostModuleBytes) throw new BinaryError(`the module is larger than ${mostModuleBytes} bytes`)
  const parts = sectionsOf(bytes).map((section) => capSection(bytes, section, Math.floor(memoryBytes / pageBytes)))
  return new Uint8Array(Buffer.concat([bytes.subarray(0, 8), ...parts]))
}

function capSection(bytes: Uint8Array, { id, start, body, end }: Section, pages: number): Uint8Array {
  const reader = createReader(bytes, body, end)
  if (id === sectionIds.type) checkTypes(reader)
  else if (id === sectionIds.import) checkImports(reader)
  else if (id === sectionIds.table) return encodeSection(id, capTables(reader))
  else if (id === sectionIds.memory) return encodeSection(id, capMemories(reader, pages))
  return bytes.subarray(start, end)
}

const functionType = 0x60

function checkTypes(reader: BinaryReader): void {
  for (let left = reader.u32(); left > 0; left--) {
    if (reader.u8() !== functionType) throw new BinaryError('types other than functions are not supported')
    // Parameters, then results; types of more than one byte need a feature that is refused above.
    reader.skip(reader.u32())
    reader.skip(reader.u32())
  }
}

function checkImports(reader: BinaryReader): void {
  const count = reader.u32()
  if (count > mostImports) throw new BinaryError(`the module imports more than ${mostImports} things`)
  for (let left = count; left > 0; left--) {
    reader.skip(reader.u32())
    reader.skip(reader.u32())
    if (reader.u8() !== 0) throw new BinaryError('only functions can be imported')
    reader.u32()
  }
}

const [funcref, externref] = [0x70, 0x6f]

function capTables(reader: BinaryReader): number[] {
  const count = reader.u32()
  if (count > mostTables) throw new BinaryError(`the module has more than ${mostTables} tables`)
  const tables = Array.from({ length: count }, () => {
    const type = reader.u8()
    if (type !== funcref && type !== externref) throw new BinaryError('tables of typed references are not supported')
    return [type, ...capped(reader.limits(), mostTableEntries, 'table')]
  })
  return [...encodeU32(count), ...tables.flat()]
}

function capMemories(reader: BinaryReader, pages: number): number[] {
  const count = reader.u32()
  if (count > 1) throw new BinaryError('the module has more than one memory')
  const memories = Array.from({ length: count }, () => capped(reader.limits(), Math.min(pages, mostPages), 'memory'))
  return [...encodeU32(count), ...memories.flat()]
}

function capped({ initial, maximum }: Limits, most: number, what: string): number[] {
  if (initial > most) throw new BinaryError(`the ${what} starts larger than it may be`)
  return [1, ...encodeU32(initial), ...encodeU32(Math.min(maximum ?? most, most))]
}
