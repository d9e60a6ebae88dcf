import type { Queries } from '../databases/database.ts'

/** What a signed request may use once. */
export interface Nonce {
  readonly keyId: string
  readonly nonce: string
}

/** Nonces of signed requests, in the table `nonces`: of any number of processes that use the same one, one may. */
export interface NonceRecords {
  /** Whether each was new, in their order; from then on it is not. */
  use(nonces: readonly Nonce[]): Promise<readonly boolean[]>
  /** Forgets those that nobody could use any more, because the request that they belong to is too old. */
  forget(): Promise<void>
}

export function nonceRecords(database: Queries): NonceRecords {
  return {
    async use(nonces) {
      const items = nonces.map(({ keyId, nonce }) => ({ key_id: keyId, nonce }))
      const rows = await database.query<{ key_id: string; nonce: string }>(useSql, [JSON.stringify(items)])
      const fresh = new Set(rows.map((row) => `${row.key_id} ${row.nonce}`))
      // Of two alike in one batch the first was new.
      return nonces.map(({ keyId, nonce }) => fresh.delete(`${keyId} ${nonce}`))
    },
    async forget() {
      await database.query(forgetSql)
    },
  }
}

const useSql = `
  insert into nonces (key_id, nonce)
  select distinct key_id, nonce from json_to_recordset($1::json) as n(key_id text, nonce text) order by 1, 2
  on conflict do nothing
  returning key_id, nonce`

/** Three times as long as a request is good for, so that clocks may differ by minutes. */
const forgetSql = `delete from nonces where used_at < now() - interval '15 minutes'`
