import { ToolError } from '@gantry/contract'
import type { Queries } from './databases/database.ts'

/** The key of the digests that stand for hidden texts, and of the fingerprints of approvals; made with the tables. */
export async function redactionKey(queries: Queries): Promise<string> {
  const [row] = await queries.query<{ key: string }>('select key from redaction_keys')
  if (row === undefined) throw new ToolError('INTERNAL', 'The table redaction_keys has no row.')
  return row.key
}
