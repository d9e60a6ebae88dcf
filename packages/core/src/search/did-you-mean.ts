import { nearest } from './near.ts'

/** ` (did you mean "x"?)` for a word that is nearly a known one, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const [near] = nearest(word, known, { limit: 1 })
  return near === undefined ? '' : ` (did you mean "${near}"?)`
}
