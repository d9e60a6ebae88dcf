import { setTimeout as sleep } from 'node:timers/promises'
import type { CallStore } from '../../packages/service/src/storage/calls/call-store.ts'
import { sqlCallStore as soundStore } from '../../packages/service/src/storage/calls/sql.ts'
import type { Database } from '../../packages/service/src/storage/databases/database.ts'

/** Call stores with one broken guarantee, to check that the ledgers detect it. */
const mutants: { readonly [name: string]: (store: CallStore, database: Database) => CallStore } = {
  /** Expired leases are never reclaimed, as if a claim acknowledged the call. */
  'acknowledged when claimed': (store) => ({
    ...store,
    reclaim: async () => ({ lost: [], promoted: 0, expired: [] }),
  }),
  /** The last outcome wins. */
  'no fence': (store, database) => ({
    ...store,
    extend: async () => ({ lost: [], cancelled: [] }),
    async finish(endings) {
      const ids = endings.map(({ callId }) => callId)
      await database.query('delete from results where call_id = any ($1)', [ids])
      await database.query(
        `insert into results (call_id, status, code, result, result_bytes, fence)
         select d.* from json_to_recordset($1::json) as d(
           call_id text, status text, code text, result text, bytes integer, fence integer)`,
        [JSON.stringify(endings.map(rowOf))],
      )
      await database.query('delete from queue where call_id = any ($1)', [ids])
      return ids
    },
  }),
  /** The start of the call is not recorded. */
  'a start that is not durable': (store, database) => ({
    ...store,
    async submit(calls, claim) {
      const submitted = await store.submit(calls, claim)
      const ids = submitted.map(({ callId }) => callId)
      await database.query('update queue set begun = false where call_id = any ($1)', [ids])
      return submitted
    },
    begin: async (holders) => holders.map(({ callId }) => callId),
  }),
  /** The caller receives an outcome that may never be stored. */
  'a reply before the commit': (store) => ({
    ...store,
    async finish(endings) {
      void sleep(1_500).then(() => store.finish(endings))
      return endings.map(({ callId }) => callId)
    },
  }),
}

function rowOf({ callId, fence, result, text, bytes }: Parameters<CallStore['finish']>[0][number]) {
  return { call_id: callId, fence, status: result.status, code: result.error?.code, result: text, bytes }
}

export function sqlCallStore(database: Database): CallStore {
  const store = soundStore(database)
  return mutants[process.env.FAULT_MUTANT ?? '']?.(store, database) ?? store
}
