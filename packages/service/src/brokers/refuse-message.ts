import type { Identity, ToolError } from '@gantry/contract'
import type { BrokerSettings } from '../config/broker-settings.ts'
import type { Bus } from '../observe/bus.ts'
import { createBatch } from '../storage/batch.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'
import type { Queries } from '../storage/databases/database.ts'
import { type RefusedMessage, refuseMessages } from '../storage/dead-letters/refused-messages.ts'
import type { Refusal } from './inbound.ts'
import { packMessage } from './packed-message.ts'

/** Encodes the reply to a sender whose message is refused; undefined when no codec here speaks to it. */
interface RefusalReplies {
  refusal(address: ReplyAddress, error: ToolError): { readonly target: string; readonly body: string } | undefined
}

export interface RefuseOptions {
  readonly database: Queries
  readonly answers: RefusalReplies
  readonly bus: Bus
  readonly sources: RefusalSources
  readonly now?: () => Date
}

/** What is known of the topic or stream that a message came from. */
export interface RefusalSources {
  /** Whose the refusals of a source are when the sender is unknown. */
  tenantOf(source: string): string
  /** The broker of a source. */
  transportOf(source: string): string
}

/** The sources of the settings; those that they do not name belong to the tenant of the service's own identity. */
export function refusalSources({ kafka, redis }: BrokerSettings, { tenant }: Identity): RefusalSources {
  const tenants = new Map([
    [kafka?.topic, kafka?.identity?.tenant ?? tenant],
    [redis?.stream, redis?.tenant],
  ])
  return {
    tenantOf: (source) => tenants.get(source) ?? tenant,
    transportOf: (source) => (source === kafka?.topic ? 'kafka' : 'redis'),
  }
}

/** What is kept of a message that could not be read. */
const mostShown = 16_384

/**
 * Keeps refusals: the answer, the message for the broker's own dead letters, and the dead letter, together. They are of
 * the sender's tenant, because what a message holds is for no other to read.
 */
export function createRefuse(options: RefuseOptions): (refusal: Refusal) => Promise<void> {
  const batch = createBatch<RefusedMessage, void>(async (refused) => {
    await refuseMessages(options.database, refused)
    return refused.map(() => undefined)
  })
  return async (refusal) => {
    const { error, dead, source } = refusal
    await batch.add(refusedMessage(refusal, options))
    options.bus.emit('message:refused', { source, code: error.code, dead })
  }
}

function refusedMessage(refusal: Refusal, { answers, sources, now = () => new Date() }: RefuseOptions): RefusedMessage {
  const { error, address, dead, deliveries, source, position, message, codec, tool, sender } = refusal
  const answer = address === undefined ? undefined : answers.refusal(address, error)
  const letter = dead && message !== undefined ? codec?.deadLetter?.(message, { error, deliveries }, now()) : undefined
  const messages = [
    ...(answer === undefined ? [] : [answer]),
    ...(letter === undefined ? [] : [{ target: letter.to, body: packMessage(sources.transportOf(source), letter) }]),
  ]
  const payload = message === undefined ? {} : { payload: shown(message.bytes) }
  const tenant = sender?.tenant ?? sources.tenantOf(source)
  return {
    ...{ tenant, source, position, deliveries, code: error.code, reason: error.message, tool },
    messages,
    ...(dead ? { dead: payload } : {}),
  }
}

/** Bytes as text, where they are text; whoever looks at it gets no more than the beginning. */
function shown(bytes: Uint8Array): string {
  const beginning = Buffer.from(bytes.subarray(0, mostShown))
  const text = beginning.toString('utf8')
  return Buffer.from(text).equals(beginning) ? text : `base64:${beginning.toString('base64')}`
}
