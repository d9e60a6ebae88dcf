import type { Queries } from '../database.ts'

/** How often to look; looking is one short statement. */
const everyMs = 5_000

/** Tables with many dead rows, and those with rows so old that their transaction numbers would soon be used again. */
const overdue = `
  select c.oid::regclass::text as name
  from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
  where c.relkind in ('r', 'm')
    and (s.n_dead_tup > 1000 + 0.02 * s.n_live_tup or age(c.relfrozenxid) > 160000000)`

/** Whether the log has grown so much that replaying it after a crash would take long. */
const longLog = `
  select 1 from pg_control_checkpoint()
  where pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) > 48 * 1024 * 1024`

/**
 * Clears away dead rows and writes checkpoints from time to time, as the background processes of a server do, which an
 * embedded engine does not have: without them its files would grow for ever.
 * Answers the function that ends it. What fails is tried again the next time.
 */
export function keepTidy(queries: Queries): () => void {
  let busy = false
  const tidy = async (): Promise<void> => {
    const tables = await queries.query<{ name: string }>(overdue)
    for (const { name } of tables) await queries.query(`vacuum (analyze) ${name}`)
    if ((await queries.query(longLog)).length > 0) await queries.query('checkpoint')
  }
  const timer = setInterval(() => {
    if (busy) return
    busy = true
    tidy()
      .catch(() => {})
      .finally(() => {
        busy = false
      })
  }, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
