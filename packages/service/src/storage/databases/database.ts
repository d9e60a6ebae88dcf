/** One row: strings, numbers, booleans, Dates and null. 64-bit integers are read as JavaScript numbers. */
export type Row = { readonly [column: string]: unknown }

/** Statements inside or outside a transaction. */
export interface Queries {
  /**
   * One statement, which outside a transaction is a transaction of its own.
   * Parameters are `$1`, `$2` …; a list of rows goes in as one JSON text for `json_to_recordset`.
   */
  query<R extends Row = Row>(sql: string, parameters?: readonly unknown[]): Promise<readonly R[]>
}

/** Access for reads on behalf of a tenant. */
export type TenantReads = Pick<Database, 'asTenant'>

/**
 * A pipelined connection: statements are sent without waiting for earlier answers and run in their order. Each is its
 * own transaction, and a failed one does not affect the next.
 */
export interface Line extends Queries {
  /**
   * Whether `query` sends a statement immediately and no earlier answer is overdue. When the line is not open, reading
   * this opens it, and `query` rejects.
   */
  readonly ready: boolean
}

/** The number of connections, of idle ones, and of statements that wait for one. */
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
 * - Ownership: the opener closes it; closing twice is harmless.
 */
export interface Database extends Queries {
  readonly kind: 'pglite' | 'postgres'
  /** Whether no other process can have this database open, so that all leases can be reclaimed at the start. */
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
  /** Absent when the database cannot pipeline statements. */
  readonly line?: Line
  /** Runs work in a transaction on one connection; rolls back when the work rejects. */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T>
  /**
   * Calls `listener` for notifications of a channel until the function it resolves with is called. They may be lost
   * during a reconnection, after which the listener gets `undefined` once and must read the tables.
   */
  listen(channel: string, listener: (payload: string | undefined) => void): Promise<() => Promise<void>>
  load(): Load
  close(): Promise<void>
}

/** Replaces characters that SQL text cannot contain. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}
