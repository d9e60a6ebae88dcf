import type { ChainResult, Identity, Result } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Claim, Ending } from '../storage/calls/call-store.ts'
import type { Database } from '../storage/databases/database.ts'
import type { BrokerReplies } from './broker-replies.ts'

export type Outcome = Result | ChainResult

/** The caller of a call; another key of the same principal may be limited to other tools. */
export type Caller = Pick<Identity, 'tenant' | 'principal' | 'tools'>

/**
 * The waiters of this process for outcomes of calls, whichever process executes them.
 * - Concurrency: any number of waiters, also for one call.
 * - Cancellation: `wait` resolves with undefined when it times out or its signal aborts.
 */
export interface Waiters {
  /** Announces a waiter: an outcome that precedes its `wait` is kept for some seconds. */
  expect(callId: string, caller: Caller): void
  /**
   * Called once by a waiter before its `wait`: whether it was announced, and the outcome when that came first. An
   * announced waiter gets the outcome for certain; any other may have missed it, and reads the store.
   */
  expected(callId: string, caller: Caller): { readonly outcome: Outcome | undefined } | undefined
  wait(callId: string, ms: number, signal: AbortSignal): Promise<Outcome | undefined>
  /** Whether an announced waiter waits, or has yet to; it knows nothing of the call before the outcome. */
  awaits(callId: string): boolean
  /** Passes on an outcome that is known in this process. */
  tell(callId: string, outcome: Outcome): void
  /** Reads the outcomes of calls that ended elsewhere, if they have waiters. */
  ended(callIds: readonly string[]): void
  /** Reads the outcomes of all waiters, because notifications may have been lost. */
  look(): Promise<void>
  readonly size: number
}

const keepMs = 5_000
/** The most outcomes that are kept; a waiter that misses its own reads it from the database. */
const mostKept = 2_000

interface Expected {
  readonly caller: Caller
  readonly until: number
  outcome: Outcome | undefined
}

/** `read` returns the outcomes of those calls that have one. */
export function createWaiters(read: (callIds: readonly string[]) => Promise<ReadonlyMap<string, Outcome>>): Waiters {
  const waiting = new Map<string, Set<(outcome: Outcome | undefined) => void>>()
  const expected = new Map<string, Expected>()

  const forgetOld = (now: number): void => {
    for (const [callId, { until }] of expected) {
      if (until > now && expected.size <= mostKept) return
      expected.delete(callId)
    }
  }
  const tell = (callId: string, outcome: Outcome): void => {
    const those = waiting.get(callId)
    waiting.delete(callId)
    for (const resolve of those ?? []) resolve(outcome)
    const kept = expected.get(callId)
    if (kept !== undefined) kept.outcome = outcome
  }
  const readAll = async (callIds: readonly string[]): Promise<void> => {
    const wanted = callIds.filter((callId) => waiting.has(callId))
    if (wanted.length === 0) return
    for (const [callId, outcome] of await read(wanted)) tell(callId, outcome)
  }
  return {
    expect(callId, caller) {
      const now = performance.now()
      expected.set(callId, { caller, until: now + keepMs, outcome: undefined })
      forgetOld(now)
    },
    expected(callId, caller) {
      const found = expected.get(callId)
      if (found === undefined || !isSame(found.caller, caller)) return undefined
      expected.delete(callId)
      return found
    },
    wait: (callId, ms, signal) =>
      new Promise((resolve) => {
        if (signal.aborted) {
          resolve(undefined)
          return
        }
        const settle = (outcome: Outcome | undefined): void => {
          clearTimeout(timer)
          stopListening()
          const those = waiting.get(callId)
          those?.delete(settle)
          if (those?.size === 0) waiting.delete(callId)
          resolve(outcome)
        }
        const giveUp = (): void => settle(undefined)
        const timer = setTimeout(giveUp, ms)
        const stopListening = onAbort(signal, giveUp)
        const those = waiting.get(callId) ?? new Set()
        waiting.set(callId, those)
        those.add(settle)
      }),
    awaits: (callId) => waiting.has(callId) || expected.has(callId),
    tell,
    ended(callIds) {
      // A waiter that misses this notification reads the store.
      for (const callId of callIds) if (expected.get(callId)?.outcome === undefined) expected.delete(callId)
      // The next poll repairs a failed read.
      readAll(callIds).catch(() => undefined)
    },
    look: () => readAll([...waiting.keys()]),
    get size() {
      return waiting.size
    },
  }
}

/**
 * Subscribes to outcomes in the database; returns the function that ends the subscription.
 * - The worker of this process, when it has one, informs the waiters of its own calls itself.
 */
export function followOutcomes(
  database: Pick<Database, 'listen'>,
  waiters: Pick<Waiters, 'ended' | 'look'>,
  worker: { has(callId: string): boolean } | undefined,
): Promise<() => Promise<void>> {
  return database.listen('gantry_done', (ids) => {
    if (ids === undefined) waiters.look().catch(() => undefined)
    else waiters.ended(ids.split(',').filter((callId) => worker?.has(callId) !== true))
  })
}

/** Notifies the waiters of a call that ended in this process, and replies to the broker that it came from. */
export function replyHere(waiters: Pick<Waiters, 'tell'>, answers: Pick<BrokerReplies, 'tell'>) {
  return ({ callId, call }: Claim, { result }: Ending): void => {
    waiters.tell(callId, result)
    if (call.reply !== undefined) answers.tell(callId, call.reply, result, call.identity.tenant)
  }
}

function isSame(one: Caller, other: Caller): boolean {
  const { tenant, principal, tools } = other
  return one.tenant === tenant && one.principal === principal && String(one.tools) === String(tools)
}

/**
 * Notifies waiters of calls: one listener for a process, however many wait. A notification only means that there is
 * something to read. Notifications can be lost, so a waiter also polls.
 */
export interface CallNotifications {
  /** Subscribes to new events and the end of one call, until the returned function is called. */
  onCall(callId: string, listener: () => void): () => void
  /** Subscribes to new items of the outbox, until the returned function is called. */
  onOutbox(listener: () => void): () => void
  close(): Promise<void>
}

/** Listens for `gantry_event`, `gantry_done` and `gantry_outbox`. Must be closed before the database. */
export async function openCallNotifications(database: Pick<Database, 'listen'>): Promise<CallNotifications> {
  const waiting = new Map<string, Set<() => void>>()
  const senders = new Set<() => void>()

  const tell = (payload: string | undefined): void => {
    // The calls are unknown: the connection was reopened, or the ids did not fit into the notification.
    const named = payload === undefined || payload === '' ? waiting.keys() : new Set(payload.split(','))
    for (const callId of named) for (const listener of waiting.get(callId) ?? []) listener()
  }
  const events = await database.listen('gantry_event', tell)
  const done = await database.listen('gantry_done', tell)
  const outbox = await database.listen('gantry_outbox', () => {
    for (const listener of senders) listener()
  })
  return {
    onCall(callId, listener) {
      const listeners = waiting.get(callId) ?? new Set()
      waiting.set(callId, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && waiting.get(callId) === listeners) waiting.delete(callId)
      }
    },
    onOutbox(listener) {
      senders.add(listener)
      return () => void senders.delete(listener)
    },
    async close() {
      await Promise.all([events(), done(), outbox()])
    },
  }
}
