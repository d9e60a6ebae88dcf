import type { ScalarForm } from './scalars.ts'
import { varintsOf, WireError } from './wire.ts'

/** The values of a repeated number: one by one, or many in one field. */
export function* unpacked(form: Pick<ScalarForm, 'packs'>, value: bigint | Buffer): Generator<bigint | Buffer> {
  const { packs } = form
  if (packs === undefined || typeof value === 'bigint') yield value
  else if (packs === 'varint') yield* varintsOf(value)
  else {
    if (value.length % packs !== 0) throw new WireError('A packed field ends inside a value.')
    for (let at = 0; at < value.length; at += packs) yield value.subarray(at, at + packs)
  }
}
