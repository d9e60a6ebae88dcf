/** Tags of ASN.1 as far as a certificate has them; those from 0xa0 on are the certificate's own. */
export const tags = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  sequence: 0x30,
  set: 0x31,
  utcTime: 0x17,
} as const

/** One value of DER: its tag, its length and what it holds. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag, ...lengthOf(content.length)), content])
}

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return der(tags.sequence, ...parts)
}

export function text(tag: number, value: string): Buffer {
  return der(tag, Buffer.from(value))
}

/** A whole number above 0 of any length; a zero in front keeps it from counting as below 0. */
export function integer(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0)
  const plain = start < 0 ? Uint8Array.of(0) : bytes.subarray(start)
  return der(tags.integer, (plain[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.of(0), plain]) : plain)
}

/** Bits whose number is a multiple of eight, unless `unused` says how many at the end do not count. */
export function bits(bytes: Uint8Array, unused = 0): Buffer {
  return der(tags.bits, Buffer.of(unused), bytes)
}

/** An object identifier as it is written, `1.2.840.10045.4.3.2`. */
export function oid(written: string): Buffer {
  const [first = 0, second = 0, ...rest] = written.split('.').map(Number)
  return der(tags.oid, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

function base128(value: number): number[] {
  const digits = [value & 0x7f]
  for (let left = value >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80)
  return digits
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length]
  const digits: number[] = []
  for (let left = length; left > 0; left >>= 8) digits.unshift(left & 0xff)
  return [0x80 | digits.length, ...digits]
}
