import { nearest } from '../search/near.ts'

/** Says ` (did you mean "x"?)`, or nothing. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  const [found] = nearest(name, candidates, { limit: 1 })
  return found === undefined ? '' : ` (did you mean "${found}"?)`
}
