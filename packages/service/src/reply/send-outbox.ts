import type { ServiceSettings } from '../config/service-settings.ts'
import type { Snapshots } from '../config/snapshots.ts'
import type { Bus } from '../observe/bus.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { Database } from '../storage/databases/database.ts'
import { outboxRecords } from '../storage/outbox/outbox.ts'
import type { BrokerReplies } from './broker-replies.ts'
import type { CallNotifications } from './call-notifications.ts'
import { createCallbackSender } from './callback.ts'
import { type Relay, type Send, startRelay } from './relay.ts'

export interface SendOutboxParts {
  readonly database: Database
  readonly views: CallViews
  readonly answers: BrokerReplies
  readonly notifications: CallNotifications
  readonly bus: Bus
  readonly settings: Pick<ServiceSettings, 'callbackTries' | 'callbackOrigins'>
  /** Callbacks go through the egress guard of the present configuration. */
  readonly snapshots: Pick<Snapshots, 'current'>
  /** The time of the database after which a claim that is sent now takes nothing; absent where a claim is never late. */
  readonly notAfter: (() => number) | undefined
  readonly callbackKey: (tenant: string) => Promise<Uint8Array | undefined>
}

/** Sends what is in the outbox: callbacks over HTTP, the rest over brokers. */
export function startSending(parts: SendOutboxParts): Relay {
  const { database, views, answers, notifications, bus, settings, snapshots } = parts
  const tries = settings.callbackTries
  const callBack = createCallbackSender({
    egress: { request: (request) => snapshots.current.executor.egress.request(request) },
    origins: () => settings.callbackOrigins,
    keyOf: parts.callbackKey,
    views,
  })
  const send: Send = (item, signal) => (item.kind === 'callback' ? callBack : answers.send)(item, signal)
  return startRelay({
    outbox: outboxRecords(database, parts.notAfter),
    send: toldOf(send, tries, bus),
    notifications: notifications,
    tries,
    failed: (error) => bus.emit('relay:failed', { reason: error instanceof Error ? error.message : String(error) }),
  })
}

/** Tells of every try to send something. */
function toldOf(send: Send, tries: number, bus: Bus): Send {
  return async (item, signal) => {
    const sending = await send(item, signal)
    const last = sending.kind === 'never' || (sending.kind === 'again' && item.tries >= tries)
    const outcome = sending.kind === 'sent' ? 'sent' : last ? 'dead' : 'again'
    const error = sending.kind === 'sent' ? undefined : sending.error
    bus.emit('callback:tried', { callId: item.callId, kind: item.kind, outcome, error })
    return sending
  }
}
