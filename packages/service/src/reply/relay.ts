import { ToolError } from '@gantry/contract'
import { type EgressRequest, retry } from '@gantry/core'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { ApprovalRecords } from '../storage/approvals/approvals.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { Database } from '../storage/databases/database.ts'
import { type Outbox, type OutboxItem, outboxRecords } from '../storage/outbox/outbox.ts'
import { createWakeSignal } from '../storage/wake-signal.ts'
import { createApprovalSender } from './approval-webhook.ts'
import type { BrokerReplies } from './broker-replies.ts'
import { createCallbackSender } from './callback.ts'
import type { CallNotifications } from './waiters.ts'

/** The result of one attempt to send an item. `error` is a sentence for people. */
export type Sending =
  | { readonly kind: 'sent' }
  /**
   * To be retried, not before `afterMs` if the receiver requested that. With `unavailable` the receiver is unreachable for all
   * items: the retry is soon and the attempt does not count.
   */
  | { readonly kind: 'again'; readonly error: string; readonly afterMs?: number; readonly unavailable?: boolean }
  /** A retry cannot succeed. */
  | { readonly kind: 'never'; readonly error: string }

/** Sends one item, within its lease; rejects only when the signal aborts. */
export type Send = (item: OutboxItem, signal: AbortSignal) => Promise<Sending>

export interface RelayOptions {
  readonly outbox: Outbox
  readonly send: Send
  readonly notifications: Pick<CallNotifications, 'onOutbox'>
  /** The most attempts of one item; 12. */
  readonly tries?: number
  /**
   * The most items in flight; 64. One target gets about a quarter of them, so that a slow one delays no other, and one
   * tenant, however many targets it has, at most three quarters.
   */
  readonly concurrency?: number
  /** Longer than any attempt; 60 s. */
  readonly leaseMs?: number
  /** The interval of polling without a notification; 1 s. */
  readonly pollMs?: number
  readonly random?: () => number
  /** Called when the outbox is unavailable; the relay retries. */
  readonly failed?: (error: unknown) => void
}

/**
 * Sends what is in the outbox, at least once each, until it is stopped. Any number of relays work side by side.
 *
 * ## States of an item
 * - `due`: any relay may claim it.
 * - `claimed`: one relay has its lease and sends it.
 * - `delayed`: it is not due yet.
 * - `sent`: it has left the outbox.
 * - `dead`: it has failed for good and is a dead letter.
 *
 * ## Transitions
 * - `due` → `claimed`: a relay has capacity for the item's target and tenant. This counts as a try.
 * - `claimed` → `sent`: the receiver took it.
 * - `claimed` → `delayed`: sending failed; the pause grows with the tries, or the pause that the receiver requested, if longer.
 * - `claimed` → `delayed`: the receiver is unreachable for all items; the pause is short and the try does not count.
 * - `claimed` → `dead`: a further try is of no use, or there were as many tries as allowed.
 * - `claimed` → `due`: the relay was stopped while it sent, and the try does not count, or its lease expired.
 * - `delayed` → `due`: the pause has passed.
 */
export interface Relay {
  /**
   * Claims nothing more and resolves when the sends in flight have ended; `now` aborts them, and their items are
   * released.
   */
  stop(now?: AbortSignal): Promise<void>
}

const firstPauseMs = 1_000
const longestPauseMs = 3_600_000
/** The pause before an unreachable receiver is tried again. */
const unavailableMs = 4_000
/** The longest interval of polling while the outbox is unavailable. */
const longestPollMs = 30_000
/** The longest delay that a receiver can request. */
const longestWishMs = 86_400_000
/** Retries of the mark, so that a short outage of the database does not send an item twice. */
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
  /** Claims and sends; resolves with whether there may be more to do at once. */
  const look = async (): Promise<boolean> => {
    const freeSlots = Math.min(share, concurrency - underWay.size)
    if (freeSlots === 0) return false
    // Counting this claim, a tenant with half of the capacity reaches three quarters.
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
    const items = await outbox.claim(freeSlots, leaseMs, except)
    for (const item of items) begin(item)
    return items.length === freeSlots
  }
  const run = async (): Promise<void> => {
    const unsubscribe = notifications.onOutbox(wakeSignal.ring)
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
    unsubscribe()
    await Promise.all(underWay.keys())
  }
  const running = run()
  return {
    async stop(now) {
      const unlisten = now === undefined ? undefined : onAbort(now, () => cut.abort())
      stopping.abort()
      await running
      unlisten?.()
    },
  }
}

interface Delivering extends RelayOptions {
  readonly sent: (item: OutboxItem) => Promise<void>
}

/** The names that have reached their share of the items in flight. */
function busy(names: readonly string[], share: number): readonly string[] {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].filter(([, count]) => count >= share).map(([name]) => name)
}

/** Sends one item and records the result. */
async function deliver(item: OutboxItem, options: Delivering, signal: AbortSignal): Promise<void> {
  const { outbox, sent, tries = 12, random = Math.random } = options
  const sending = await attempt(item, options, signal)
  const mark = (): Promise<void> => {
    if (sending === undefined) return outbox.release(item)
    if (sending.kind === 'sent') return sent(item)
    if (sending.kind === 'again' && sending.unavailable === true) {
      return outbox.postpone(item, unavailableMs * (0.25 + random() * 0.75), sending.error)
    }
    if (sending.kind === 'never' || item.tries >= tries) return outbox.fail(item, sending.error)
    const delayMs = Math.max(pauseAfter(item.tries, random), Math.min(sending.afterMs ?? 0, longestWishMs))
    return outbox.later(item, delayMs, sending.error)
  }
  await retry(mark, { rule: marking, mayRepeat: isUnavailable, signal })
}

/** Undefined when the send was aborted. */
async function attempt(item: OutboxItem, { send, tries = 12 }: RelayOptions, signal: AbortSignal) {
  // A lost relay counts as an attempt too, so that an item that crashes relays is not sent for ever.
  if (item.tries > tries) return { kind: 'never', error: 'The relays that tried to send it were lost.' } as const
  try {
    return await send(item, signal)
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}

/**
 * A second, then three times as long each time up to an hour; half of it is random, so that receivers are not flooded.
 */
export function pauseAfter(tries: number, random: () => number): number {
  const longest = Math.min(longestPauseMs, firstPauseMs * 3 ** Math.min(tries - 1, 20))
  return Math.round(longest * (0.5 + random() / 2))
}

function isUnavailable(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
}

interface SendOutboxParts {
  readonly database: Database
  readonly views: CallViews
  readonly answers: BrokerReplies
  readonly notifications: CallNotifications
  readonly bus: Bus
  readonly approvals: Pick<ApprovalRecords, 'news'>
  readonly settings: Pick<ServiceSettings, 'callbackTries' | 'callbackOrigins' | 'approvals'>
  /** Callbacks use the egress guard of the current configuration. */
  readonly snapshots: Pick<Snapshots, 'current'>
  /** The database time after which a claim that is sent now takes nothing; absent where a claim is never late. */
  readonly notAfter: (() => number) | undefined
  readonly callbackKey: (tenant: string) => Promise<Uint8Array | undefined>
  readonly approvalKey: () => Promise<Uint8Array | undefined>
}

/** Sends the items of the outbox: callbacks and news of approvals over HTTP, all others over brokers. */
export function startSending(parts: SendOutboxParts): Relay {
  const { database, views, answers, notifications, bus, settings, snapshots } = parts
  const tries = settings.callbackTries
  const egress = { request: (request: EgressRequest) => snapshots.current.executor.egress.request(request) }
  const callBack = createCallbackSender({
    egress,
    origins: () => settings.callbackOrigins,
    keyOf: parts.callbackKey,
    views,
  })
  const announce = createApprovalSender({
    egress,
    settings: () => settings.approvals,
    key: parts.approvalKey,
    approvals: parts.approvals,
  })
  const senders = { callback: callBack, approval: announce, reply: answers.send, message: answers.send }
  const send: Send = (item, signal) => senders[item.kind](item, signal)
  return startRelay({
    outbox: outboxRecords(database, parts.notAfter),
    send: reporting(send, tries, bus),
    notifications: notifications,
    tries,
    failed: (error) => bus.emit('relay:failed', { reason: error instanceof Error ? error.message : String(error) }),
  })
}

/** Reports every attempt to send an item. */
function reporting(send: Send, tries: number, bus: Bus): Send {
  return async (item, signal) => {
    const sending = await send(item, signal)
    const last = sending.kind === 'never' || (sending.kind === 'again' && item.tries >= tries)
    const outcome = sending.kind === 'sent' ? 'sent' : last ? 'dead' : 'again'
    const error = sending.kind === 'sent' ? undefined : sending.error
    bus.emit('callback:tried', { callId: item.callId, kind: item.kind, outcome, error })
    return sending
  }
}
