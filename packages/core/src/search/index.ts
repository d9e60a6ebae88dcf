export {
  cursorFault,
  decodeCursor,
  encodeCursor,
  queryDigest,
  readSearchCursor,
  type SearchCursor,
  writeSearchCursor,
} from './cursor.ts'
export { SortedStrings } from './dictionary.ts'
export type { Document } from './document.ts'
export { didYouMean, editDistance, type NearOptions, nearest, unknownKeys } from './near.ts'
export { maxQuery, type Plan } from './plan.ts'
export { type Candidates, type Hit, keyPrefix, pick, type RankPosition } from './score.ts'
export { TextIndex } from './text-index.ts'
