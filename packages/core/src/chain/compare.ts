import type { Json, JsonObject } from '@gantry/contract'
import type { Allowance } from './allowance.ts'

/** Whether two values are the same JSON, whatever the order of keys; ends at the first difference. */
export function same(left: Json, right: Json, allowance: Allowance): boolean {
  allowance.spend(8)
  if (typeof left === 'string' && typeof right === 'string') {
    if (left.length !== right.length) return false
    allowance.spend(left.length)
    return left === right
  }
  if (left === right) return true
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
  if (!Array.isArray(left)) return !Array.isArray(right) && sameMembers(left, right, allowance)
  if (!Array.isArray(right) || left.length !== right.length) return false
  return left.every((item, index) => same(item, right[index] ?? null, allowance))
}

function sameMembers(left: JsonObject, right: JsonObject, allowance: Allowance): boolean {
  const keys = Object.keys(left)
  const others = Object.keys(right).length
  allowance.spend(8 * (keys.length + others))
  if (keys.length !== others) return false
  return keys.every((key) => Object.hasOwn(right, key) && same(left[key] ?? null, right[key] ?? null, allowance))
}

/** Up to here the engine's own search takes few enough steps for each character, whatever the texts are. */
const shortPart = 256

/** Whether text holds a part. A long part that nearly matches everywhere would take the engine's search quadratic time. */
export function contains(text: string, part: string): boolean {
  if (part.length <= shortPart || part.length > text.length) return text.includes(part)
  const fallback = new Uint32Array(part.length)
  for (let at = 1, matched = 0; at < part.length; at++) {
    matched = extend(part, fallback, matched, part.charCodeAt(at))
    fallback[at] = matched
  }
  for (let at = 0, matched = 0; at < text.length; at++) {
    matched = extend(part, fallback, matched, text.charCodeAt(at))
    if (matched === part.length) return true
  }
  return false
}

/** One step of Knuth, Morris and Pratt: how much of the part is matched after one more character. */
function extend(part: string, fallback: Uint32Array, matched: number, unit: number): number {
  let length = matched
  while (length > 0 && part.charCodeAt(length) !== unit) length = fallback[length - 1] ?? 0
  return part.charCodeAt(length) === unit ? length + 1 : length
}
