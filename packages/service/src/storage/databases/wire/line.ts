import type pg from 'pg'
import type { Line, Row } from '../database.ts'
import { connectError, isBroken, statementError } from './errors.ts'
import { type NameOf, send } from './queries.ts'

export interface LineOptions {
  /** A connection that sends statements without waiting for the answers of those before. */
  readonly open: () => pg.Client
  /** What is done on it before anybody uses it. */
  readonly prepare: (client: pg.Client) => Promise<unknown>
  readonly nameOf: NameOf
}

export interface ClosableLine extends Line {
  /** Lets what was sent be answered, and opens no more. */
  close(): Promise<void>
}

/** What is still unanswered at `close` may go on for so long. */
const graceMs = 5_000
/** A server that cannot be reached is not asked more often. */
const pauseMs = 1_000
/** While an answer is out for longer, nothing more is sent behind it by those who have another way. */
const slowMs = 250
/** Far longer than that, a connection that nobody uses may have been dropped on the way without a word. */
const idleMs = 30_000

/**
 * It is *shut* until somebody asks whether it is ready; then it is *opening*, and *ready* once it is prepared. While an
 * answer is long in coming it is *slow*, which is not ready, though what must go behind others is still sent. When it
 * breaks, all that was sent is rejected and it is shut, as it is when nobody used it for a while; whoever asks next opens
 * it again, unless that failed just now.
 */
export function createLine({ open, prepare, nameOf }: LineOptions): ClosableLine {
  let opening: Promise<void> | undefined
  let client: pg.Client | undefined
  let notBefore = Number.NEGATIVE_INFINITY
  let closed = false
  let idle: NodeJS.Timeout | undefined
  /** When each statement that is not answered was sent, the oldest first. */
  const sent = new Map<symbol, number>()

  const leave = (left: pg.Client): void => {
    if (client === left) client = undefined
    left.connection.stream.destroy()
  }
  /** In order, as long as the other side plays its part. */
  const sayGoodbye = async (left: pg.Client): Promise<void> => {
    if (client === left) client = undefined
    const late = setTimeout(leave, graceMs, left)
    await left.end()
    clearTimeout(late)
  }
  const rest = (): void => {
    clearTimeout(idle)
    const resting = client
    if (sent.size === 0 && resting !== undefined) idle = setTimeout(sayGoodbye, idleMs, resting).unref()
  }
  const isSlow = (): boolean => {
    const [oldest = Number.POSITIVE_INFINITY] = sent.values()
    return performance.now() - oldest > slowMs
  }
  const connect = async (): Promise<void> => {
    const made = open()
    // Whoever uses the connection hears of its end by his statement; without this an idle one would end the process.
    made.on('error', () => {})
    made.once('end', () => leave(made))
    try {
      await made.connect()
      await prepare(made)
      if (closed) leave(made)
      else client = made
      rest()
    } catch {
      notBefore = performance.now() + pauseMs
      leave(made)
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
        return (await send(taken, nameOf, sql, parameters)).rows as R[]
      } catch (error) {
        if (isBroken(error)) leave(taken)
        throw statementError(error, 'unknown')
      } finally {
        sent.delete(own)
        rest()
      }
    },
    async close() {
      closed = true
      clearTimeout(idle)
      await opening
      if (client !== undefined) await sayGoodbye(client)
    },
  }
}
