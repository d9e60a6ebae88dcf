import type { Issue } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { didYouMean } from './did-you-mean.ts'

/** One issue for each key that nobody reads, with the one that was probably meant; `message` says what it is not. */
export function unknownKeys(value: object, known: readonly string[], path: string, message: string): readonly Issue[] {
  const unknown = Object.keys(value).filter((key) => !known.includes(key))
  return unknown.map((key) => ({
    path: `${path}/${escapeSegment(key.slice(0, 64))}`,
    message: `${message}${didYouMean(key, known)}`,
  }))
}
