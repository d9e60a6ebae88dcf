import type { Queries } from '../../packages/service/src/storage/databases/database.ts'
import { letterPrefix, type Outbox, outboxRecords as sound } from '../../packages/service/src/storage/outbox/outbox.ts'

export { letterPrefix }

/** Nothing is ever taken from it, as if there were none. */
export function outboxRecords(database: Queries, notAfter?: () => number): Outbox {
  return { ...sound(database, notAfter), claim: async () => [] }
}
