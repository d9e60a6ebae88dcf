import type { Queries } from './databases/database.ts'

/** What somebody who watches the service wants to know of its tables. */
export interface Figures {
  /** Approvals that somebody still has to give or refuse, for calls that still wait for them. */
  readonly approvals: number
  /** Rows of the audit record that no seal stands for yet. */
  readonly unsealed: number
}

/** More than this is as bad, and counting it would take longer than anybody waits for a figure. */
const most = 100_000

const figuresSql = `
  select
    (select count(*) from (
      select from approvals p join queue q on q.call_id = p.call_id
      where p.decision is null and p.expires_at > now() limit ${most}
    ) a)::integer as approvals,
    (select count(*) from (
      select from audit where seq > (select coalesce(max(upto_seq), 0) from audit_seals) limit ${most}
    ) u)::integer as unsealed`

/** How much is stored in files, of all tenants. */
export async function readStored(database: Queries): Promise<{ readonly bytes: number; readonly files: number }> {
  const [stored] = await database.query<{ bytes: number; files: number }>(storedSql)
  return stored ?? { bytes: 0, files: 0 }
}

const storedSql = `
  select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(files), 0)::bigint as files
  from stored_usage where principal = ''`

/** Asks for all of them at once. */
export async function readFigures(database: Queries): Promise<Figures> {
  const [figures] = await database.query<{ approvals: number; unsealed: number }>(figuresSql)
  return figures ?? { approvals: 0, unsealed: 0 }
}
