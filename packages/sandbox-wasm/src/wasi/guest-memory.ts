import type { WasmMemory } from '../guest/web-assembly.ts'
import { errno, WasiError } from './errno.ts'

/** The memory of a module as calls use it. Every address comes from the module; one that is not inside is EFAULT. */
export interface GuestMemory {
  u32(at: number): number
  u64(at: number): bigint
  u16(at: number): number
  u8(at: number): number
  setU8(at: number, value: number): void
  setU16(at: number, value: number): void
  setU32(at: number, value: number): void
  setU64(at: number, value: bigint | number): void
  /** The bytes themselves, valid until the module runs again. */
  bytes(at: number, length: number): Uint8Array
  text(at: number, length: number): string
  /** The pieces that a call reads from or writes to. */
  pieces(at: number, count: number): Uint8Array[]
}

const mostPieces = 1_024
const longestText = 4_096

/** `memory` is asked each time, because a memory that grows gets another buffer. */
export function createGuestMemory(memory: () => WasmMemory): GuestMemory {
  const view = (at: number, length: number): DataView => {
    const { buffer } = memory()
    const start = at >>> 0
    if (start + length > buffer.byteLength) throw new WasiError(errno.fault)
    return new DataView(buffer, start, length)
  }
  const u32 = (at: number): number => view(at, 4).getUint32(0, true)
  const bytes = (at: number, length: number): Uint8Array => {
    const { buffer, byteOffset, byteLength } = view(at, length >>> 0)
    return new Uint8Array(buffer, byteOffset, byteLength)
  }
  return {
    u8: (at) => view(at, 1).getUint8(0),
    u16: (at) => view(at, 2).getUint16(0, true),
    u32,
    u64: (at) => view(at, 8).getBigUint64(0, true),
    setU8: (at, value) => view(at, 1).setUint8(0, value),
    setU16: (at, value) => view(at, 2).setUint16(0, value, true),
    setU32: (at, value) => view(at, 4).setUint32(0, value, true),
    setU64: (at, value) => view(at, 8).setBigUint64(0, BigInt(value), true),
    bytes,
    text(at, length) {
      if (length >>> 0 > longestText) throw new WasiError(errno.nametoolong)
      const text = Buffer.from(bytes(at, length)).toString()
      if (text.includes('\0')) throw new WasiError(errno.inval)
      return text
    },
    pieces(at, count) {
      if (count >>> 0 > mostPieces) throw new WasiError(errno.inval)
      return Array.from({ length: count }, (_, index) => bytes(u32(at + index * 8), u32(at + index * 8 + 4)))
    },
  }
}
