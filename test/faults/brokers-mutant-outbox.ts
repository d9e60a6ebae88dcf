import type { Queries } from '../../packages/service/src/storage/databases/database.ts'
import {
  deadLetterPrefix,
  type Outbox,
  outboxPosts,
  outboxRecords as sound,
} from '../../packages/service/src/storage/outbox/outbox.ts'

export { deadLetterPrefix, outboxPosts }

/** An outbox whose messages are never claimed. */
export function outboxRecords(database: Queries, notAfter?: () => number): Outbox {
  return { ...sound(database, notAfter), claim: async () => [] }
}
