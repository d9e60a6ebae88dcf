import { timingSafeEqual } from 'node:crypto'

const bytes = 32

/** Returns what is wrong with a SHA-256 fingerprint; undefined when it is valid. */
export function fingerprintFault(value: string): string | undefined {
  return hexOf(value).length === bytes * 2
    ? undefined
    : 'must be a SHA-256 fingerprint of 32 bytes in hexadecimal, as `pvenode cert info` prints it'
}

export function sameFingerprint(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(hexOf(one), 'hex'), Buffer.from(hexOf(other), 'hex')]
  return left.length === bytes && right.length === bytes && timingSafeEqual(left, right)
}

function hexOf(value: string): string {
  const text = value.replaceAll(':', '').toLowerCase()
  return /^[0-9a-f]*$/.test(text) ? text : ''
}
