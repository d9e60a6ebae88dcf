/** One row as the database gives it; texts, numbers, booleans, Dates and null. 64-bit numbers come as JavaScript numbers. */
export type Row = { readonly [column: string]: unknown }

/** What can be asked of a database, inside a transaction or outside. */
export interface Queries {
  /**
   * One statement, which outside a transaction is a transaction of its own.
   * Parameters are `$1`, `$2` …; a list of rows goes in as one JSON text for `json_to_recordset`.
   */
  query<R extends Row = Row>(sql: string, parameters?: readonly unknown[]): Promise<readonly R[]>
}

/** What reads for a tenant needs: it can read as that one only. */
export type TenantReads = Pick<Database, 'asTenant'>

/**
 * Statements that are sent at once, without waiting for the answers of those before, and done in the order in which they
 * were asked for; each is a transaction of its own, and one that fails does not keep the next from being done.
 */
export interface Line extends Queries {
  /**
   * Whether a statement would leave by the time `query` returns, and nothing before it is long unanswered. When the line
   * is not open it is being opened, and `query` rejects.
   */
  readonly ready: boolean
}

/** How many connections there are, how many of them nobody uses, and how many statements wait for one. */
export interface Load {
  readonly open: number
  readonly idle: number
  readonly waiting: number
}

/**
 * SQL, on an embedded PGlite or a real PostgreSQL; the statements are the same.
 * - Concurrency: any number of queries at once; PGlite does one at a time, PostgreSQL as many as it has connections.
 * - Errors: rejects with ToolError STORE_UNAVAILABLE when the database cannot be reached, is read-only, out of
 *   connections or space, or does not answer in time (`details.outcome` is `unknown` when the statement may have been
 *   done), and with INTERNAL for a statement that is wrong. The driver's error is the cause.
 * - Cancellation: `close` ends what waits; a query by itself ends by its time limit.
 * - Ownership: whoever opened it closes it; closing twice is harmless.
 */
export interface Database extends Queries {
  readonly kind: 'pglite' | 'postgres'
  /** Nobody else can have this database open, so that what a dead process held is free at once. */
  readonly exclusive: boolean
  /**
   * The same database, over the same connections, with the rights of the role `gantry_service`: whatever the service
   * needs, but not to change tables, nor what was once audited. Without it, statements are done with the login's own
   * rights, which is for migrations. Closing either closes both.
   */
  asService(): Database
  /**
   * Reads with the rights of the role `gantry_tenant`, which sees the rows of this tenant alone, whatever a statement
   * asks for. Each query is a transaction of its own, and one that writes is refused.
   */
  asTenant(tenant: string): Queries
  /** Absent where every statement has to wait for the one before. */
  readonly line?: Line
  /** Begins, does the work on one connection, and commits; rolls back when the work rejects. */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T>
  /**
   * Hears notifications of a channel until the function it resolves with is called. They may be lost while a
   * connection is made again, after which the listener hears `undefined` once: whoever listens must look for himself.
   */
  listen(channel: string, hear: (payload: string | undefined) => void): Promise<() => Promise<void>>
  load(): Load
  close(): Promise<void>
}

/** Anything may be quoted in a text, and SQL cannot hold all of it. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}
