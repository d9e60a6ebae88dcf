import { setTimeout as sleep } from 'node:timers/promises'
import type { CallStore } from '../../packages/service/src/storage/calls/call-store.ts'
import { sqlCallStore as soundStore } from '../../packages/service/src/storage/calls/sql.ts'
import type { Database } from '../../packages/service/src/storage/databases/database.ts'

/** The store with one promise broken, to see that the ledgers would tell. */
const mutants: { readonly [name: string]: (store: CallStore, database: Database) => CallStore } = {
  /** What is claimed is gone from the queue, as if it were acknowledged when it is handed out. */
  'acknowledged when claimed': (store) => ({
    ...store,
    reclaim: async () => ({ lost: [], promoted: 0, expired: [] }),
  }),
  /** Whoever comes last is believed. */
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
  /** Nobody knows later that the work had begun. */
  'a beginning that is not durable': (store, database) => ({
    ...store,
    async submit(calls, claim) {
      const submitted = await store.submit(calls, claim)
      const ids = submitted.map(({ callId }) => callId)
      await database.query('update queue set begun = false where call_id = any ($1)', [ids])
      return submitted
    },
    begin: async (holders) => holders.map(({ callId }) => callId),
  }),
  /** The caller hears of an outcome that may never be kept. */
  'an answer before the commit': (store) => ({
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
