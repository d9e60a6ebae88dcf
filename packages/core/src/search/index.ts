export {
  cursorFault,
  decodeCursor,
  encodeCursor,
  queryDigest,
  readPlace,
  type SearchPlace,
  writePlace,
} from './cursor.ts'
export { SortedStrings } from './dictionary.ts'
export type { Document } from './document.ts'
export { didYouMean, editDistance, type NearOptions, nearest, unknownKeys } from './near.ts'
export type { Plan } from './plan.ts'
export { type Candidates, type Hit, keyPrefix, type Place, pick } from './score.ts'
export { TextIndex } from './text-index.ts'
