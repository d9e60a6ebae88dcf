import { ToolError } from '@gantry/contract'
import { retry } from '@gantry/core'
import { createBatch } from '../storage/batch.ts'
import type { Outbox, OutboxItem } from '../storage/outbox/outbox.ts'
import { createWakeSignal } from '../storage/wake-signal.ts'
import type { CallNotifications } from './call-notifications.ts'

/** What came of one try to send an item. `error` is a sentence for people. */
export type Sending =
  | { readonly kind: 'sent' }
  /** To be tried again, not before `afterMs` when its receiver said so; soon and uncounted when the way is closed to all. */
  | { readonly kind: 'again'; readonly error: string; readonly afterMs?: number; readonly away?: boolean }
  /** Trying again would be no use. */
  | { readonly kind: 'never'; readonly error: string }

/** Sends one item, within the time of its lease; rejects only when the signal aborts. */
export type Send = (item: OutboxItem, signal: AbortSignal) => Promise<Sending>

export interface RelayOptions {
  readonly outbox: Outbox
  readonly send: Send
  readonly notifications: Pick<CallNotifications, 'onOutbox'>
  /** Tries of one item; 12. */
  readonly tries?: number
  /**
   * Items that are sent at a time; 64. One target gets about a quarter of them, so that a slow one holds up no other, and
   * one tenant, however many targets it has, three quarters at most.
   */
  readonly concurrency?: number
  /** Longer than any try takes; 60 s. */
  readonly leaseMs?: number
  /** How long a relay that hears nothing waits before it looks; 1 s. */
  readonly pollMs?: number
  readonly random?: () => number
  /** Told when the outbox cannot be reached, and the relay tries again. */
  readonly failed?: (error: unknown) => void
}

/** Sends what is in the outbox, at least once each, until it is stopped. Any number of relays work side by side. */
export interface Relay {
  /** Takes nothing more and resolves when what is under way has ended; what `now` cuts short is handed back. */
  stop(now?: AbortSignal): Promise<void>
}

const firstPauseMs = 1_000
const longestPauseMs = 3_600_000
/** Until it is looked whether a way that was closed is open again. */
const awayMs = 4_000
/** Between two looks while the outbox cannot be reached. */
const longestPollMs = 30_000
/** A receiver cannot put off a message for longer. */
const longestWishMs = 86_400_000
/** So that a short absence of the database does not send again what was sent. */
const marking = { attempts: 6, delayMs: 400, maxDelayMs: 5_000 }

export function startRelay(options: RelayOptions): Relay {
  const { outbox, notifications, concurrency = 64, leaseMs = 60_000, pollMs = 1_000, random = Math.random } = options
  const wakeSignal = createWakeSignal()
  const stopping = new AbortController()
  const cut = new AbortController()
  const underWay = new Map<Promise<void>, OutboxItem>()
  const share = Math.max(1, Math.floor(concurrency / 4))
  const sent = createBatch<OutboxItem, void>(async (items) => {
    await outbox.sent(items)
    return items.map(() => undefined)
  })

  const begin = (item: OutboxItem): void => {
    const ended = deliver(item, { ...options, sent: sent.add }, cut.signal)
      .catch((error: unknown) => options.failed?.(error))
      .finally(() => {
        underWay.delete(ended)
        wakeSignal.ring()
      })
    underWay.set(ended, item)
  }
  /** Answers whether there may be more to do at once. */
  const look = async (): Promise<boolean> => {
    const room = Math.min(share, concurrency - underWay.size)
    if (room === 0) return false
    // With what is claimed now, a tenant that has half of them has three quarters.
    const except = {
      targets: busy(
        [...underWay.values()].map(({ target }) => target),
        share,
      ),
      tenants: busy(
        [...underWay.values()].map(({ tenant }) => tenant),
        Math.max(1, Math.floor(concurrency / 2)),
      ),
    }
    const items = await outbox.claim(room, leaseMs, except)
    for (const item of items) begin(item)
    return items.length === room
  }
  const run = async (): Promise<void> => {
    const unhear = notifications.onOutbox(wakeSignal.ring)
    let pauseMs = pollMs
    while (!stopping.signal.aborted) {
      try {
        const more = await look()
        pauseMs = pollMs
        if (more) continue
      } catch (error) {
        options.failed?.(error)
        pauseMs = Math.min(longestPollMs, pauseMs * 2)
      }
      await wakeSignal.wait(pauseMs * (0.5 + random() / 2), stopping.signal)
    }
    unhear()
    await Promise.all(underWay.keys())
  }
  const running = run()
  return {
    async stop(now) {
      const end = (): void => cut.abort()
      now?.addEventListener('abort', end)
      if (now?.aborted === true) end()
      stopping.abort()
      await running
      now?.removeEventListener('abort', end)
    },
  }
}

interface Delivering extends RelayOptions {
  readonly sent: (item: OutboxItem) => Promise<void>
}

/** Names that have their share of what is under way. */
function busy(names: readonly string[], share: number): readonly string[] {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].filter(([, count]) => count >= share).map(([name]) => name)
}

/** One item: sent, and what came of it on record. */
async function deliver(item: OutboxItem, options: Delivering, signal: AbortSignal): Promise<void> {
  const { outbox, sent, tries = 12, random = Math.random } = options
  const sending = await attempt(item, options, signal)
  const mark = (): Promise<void> => {
    if (sending === undefined) return outbox.release(item)
    if (sending.kind === 'sent') return sent(item)
    if (sending.kind === 'again' && sending.away === true) {
      return outbox.postpone(item, awayMs * (0.25 + random() * 0.75), sending.error)
    }
    if (sending.kind === 'never' || item.tries >= tries) return outbox.fail(item, sending.error)
    const delayMs = Math.max(pauseAfter(item.tries, random), Math.min(sending.afterMs ?? 0, longestWishMs))
    return outbox.later(item, delayMs, sending.error)
  }
  await retry(mark, { rule: marking, mayRepeat: isAway, signal })
}

/** Undefined when it was cut short. */
async function attempt(item: OutboxItem, { send, tries = 12 }: RelayOptions, signal: AbortSignal) {
  // Relays that die while they send count as tries too; what kills them is not sent for ever.
  if (item.tries > tries) return { kind: 'never', error: 'Whoever was to send it did not come back.' } as const
  try {
    return await send(item, signal)
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}

/** A second, then three times as long each time up to an hour; a part of it by chance, so that receivers are not swamped. */
export function pauseAfter(tries: number, random: () => number): number {
  const longest = Math.min(longestPauseMs, firstPauseMs * 3 ** Math.min(tries - 1, 20))
  return Math.round(longest * (0.5 + random() / 2))
}

function isAway(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
}
