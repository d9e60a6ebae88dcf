import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import type { Database, Queries } from '../src/storage/databases/database.ts'

/** A database that can fail every statement (a cut connection) or every write (a full disk). */
export interface FailingDatabase {
  readonly database: Database
  fail(what: 'all' | 'writes' | 'nothing'): void
  /** Resolves when the next statement with this text fails. */
  refused(text: string): Promise<void>
}

export function failingDatabase(real: Database): FailingDatabase {
  let failing: 'all' | 'writes' | 'nothing' = 'nothing'
  let watching: { readonly text: string; readonly resolve: () => void } | undefined
  const check = (sql: string): void => {
    const writes = /\b(?:insert|update|delete|lock)\b/i.test(sql)
    if (failing === 'nothing' || (failing === 'writes' && !writes)) return
    if (watching !== undefined && sql.includes(watching.text)) watching.resolve()
    throw new ToolError('STORE_UNAVAILABLE', 'No space left on device.', { details: { outcome: 'none' } })
  }
  const queriesOf = (inner: Queries): Queries => ({
    async query(sql, parameters) {
      check(sql)
      return inner.query(sql, parameters)
    },
  })
  const wrapped = (inner: Database): Database => ({
    ...queriesOf(inner),
    kind: inner.kind,
    exclusive: inner.exclusive,
    asService: () => wrapped(inner.asService()),
    asTenant: (tenant) => queriesOf(inner.asTenant(tenant)),
    async transaction(work) {
      check('insert')
      return inner.transaction((queries) => work(queriesOf(queries)))
    },
    listen: (channel, hear) => inner.listen(channel, hear),
    load: () => inner.load(),
    close: () => inner.close(),
  })
  return {
    database: wrapped(real),
    fail(what) {
      failing = what
    },
    refused: (text) =>
      new Promise((resolve) => {
        watching = { text, resolve }
      }),
  }
}

/** Makes the spool of a data folder unwritable, for root too; returns the function that repairs it. */
export function breakSpool(data: string): () => void {
  const spool = join(data, 'spool')
  rmSync(spool, { recursive: true, force: true })
  writeFileSync(spool, 'not a folder')
  return () => {
    rmSync(spool)
    mkdirSync(spool, { mode: 0o700 })
  }
}
