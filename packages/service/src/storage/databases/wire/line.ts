import type pg from 'pg'
import type { Line, Row } from '../database.ts'
import { type NameOf, send } from './connections.ts'
import { connectError, isBroken, statementError } from './errors.ts'

export interface LineOptions {
  /** A connection that sends statements without waiting for the answers of those before. */
  readonly open: () => pg.Client
  /** Runs on a new connection before its first use. */
  readonly prepare: (client: pg.Client) => Promise<unknown>
  readonly nameOf: NameOf
}

export interface ClosableLine extends Line {
  /** Waits for outstanding answers, and does not reopen. */
  close(): Promise<void>
}

/** At `close`, how long to wait for outstanding answers. */
const graceMs = 5_000
/** The pause after a failed connection attempt. */
const pauseMs = 1_000
/** While an answer is outstanding for longer, statements that can use another connection do. */
const slowMs = 250
/** An idle connection may be dropped silently by the network after a far longer time. */
const idleMs = 30_000

/**
 * The pipelined connection.
 *
 * States: `shut` (at first), `opening`, `ready`, `slow`, `closed`
 *
 * - `shut` → `opening`: `ready` is read, and the last attempt failed at least `pauseMs` ago.
 * - `opening` → `ready`: it is connected and prepared.
 * - `opening` → `shut`: connecting or preparing failed.
 * - `ready` → `slow`: the oldest answer is outstanding for `slowMs`. Statements that must follow others are still sent.
 * - `slow` → `ready`: that answer arrived.
 * - `ready` or `slow` → `shut`: the connection broke, which rejects all that was sent.
 * - `ready` → `shut`: it was not used for `idleMs`.
 * - any → `closed`: `close`, once what was sent is answered.
 */
export function createLine({ open, prepare, nameOf }: LineOptions): ClosableLine {
  let opening: Promise<void> | undefined
  let client: pg.Client | undefined
  let notBefore = Number.NEGATIVE_INFINITY
  let closed = false
  let idle: NodeJS.Timeout | undefined
  /** When each outstanding statement was sent, the oldest first. */
  const sent = new Map<symbol, number>()

  const destroy = (old: pg.Client): void => {
    if (client === old) client = undefined
    old.connection.stream.destroy()
  }
  /** Ends a connection in order, and destroys it when the server does not answer. */
  const end = async (old: pg.Client): Promise<void> => {
    if (client === old) client = undefined
    const late = setTimeout(destroy, graceMs, old)
    await old.end()
    clearTimeout(late)
  }
  const startIdleTimer = (): void => {
    clearTimeout(idle)
    const unused = client
    if (sent.size === 0 && unused !== undefined) idle = setTimeout(end, idleMs, unused).unref()
  }
  const isSlow = (): boolean => {
    const [oldest = Number.POSITIVE_INFINITY] = sent.values()
    return performance.now() - oldest > slowMs
  }
  const connect = async (): Promise<void> => {
    const made = open()
    // A running statement reports the error; without a listener the error of an idle connection would crash the
    // process.
    made.on('error', () => {})
    made.once('end', () => destroy(made))
    try {
      await made.connect()
      await prepare(made)
      if (closed) destroy(made)
      else client = made
      startIdleTimer()
    } catch {
      notBefore = performance.now() + pauseMs
      destroy(made)
    } finally {
      opening = undefined
    }
  }
  return {
    get ready() {
      if (client === undefined && !closed && performance.now() >= notBefore) opening ??= connect()
      return client !== undefined && !isSlow()
    },
    async query<R extends Row>(sql: string, parameters?: readonly unknown[]) {
      const taken = client
      if (taken === undefined) throw connectError(new Error('The line is not open.'))
      const own = Symbol()
      clearTimeout(idle)
      sent.set(own, performance.now())
      try {
        return (await send<R>(taken, nameOf, sql, parameters)).rows
      } catch (error) {
        if (isBroken(error)) destroy(taken)
        throw statementError(error, 'unknown')
      } finally {
        sent.delete(own)
        startIdleTimer()
      }
    },
    async close() {
      closed = true
      clearTimeout(idle)
      await opening
      if (client !== undefined) await end(client)
    },
  }
}
