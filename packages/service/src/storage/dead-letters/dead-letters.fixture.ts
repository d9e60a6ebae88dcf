import type { Identity } from '@gantry/contract'
import { sqlCallStore } from '../calls/sql.ts'
import { addRows, someCall, someEnd } from '../calls.fixture.ts'
import type { Database, Queries, Row } from '../databases/database.ts'
import { type DeadLettersOptions, deadLetterRecords } from './dead-letters.ts'

export const operator: Identity = { principal: 'olga', tenant: 'acme', permissions: ['*'] }
export const identity: Identity = { principal: 'alice', tenant: 'acme', permissions: ['math:*'], roles: ['user'] }
export const claiming = { worker: 'w', leaseMs: 60_000 }

export function letter(id: string, given: Row = {}): Row {
  const about = { tenant: 'acme', call_id: id, source: 'call', reason: 'It died.', code: 'DELIVERY_EXHAUSTED' }
  return { id, ...about, tool: 'math:add:1.0.0', deliveries: 3, ...given }
}

/** Dead letters, and the store that redriven calls are submitted to. */
export function parts(database: Database, options: Partial<DeadLettersOptions> = {}) {
  const calls = sqlCallStore(database)
  let made = 0
  const newId = (): string => {
    made += 1
    return `new${made}`
  }
  return { calls, deadLetters: deadLetterRecords({ database, newId, ...options }) }
}

/** Adds a call with a dead letter. */
export async function dead(database: Queries, id: string, call: Row = {}): Promise<void> {
  await addRows(database, 'calls', [someCall(id, { identity: JSON.stringify(identity), ...call })])
  await addRows(database, 'results', [someEnd(id, { status: 'failed' })])
  await addRows(database, 'dead_letters', [letter(id)])
}
