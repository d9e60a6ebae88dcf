import type { Queries } from '../../databases/database.ts'

/** Also part of a transaction that decides on an approval. */
export async function resume(queries: Queries, callId: string): Promise<void> {
  await queries.query('select resume_call($1)', [callId])
}
