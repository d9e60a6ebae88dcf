import { type Identity, ToolError } from '@gantry/contract'
import type { BrokerSettings } from '../config/broker-settings.ts'
import type { Bus } from '../observe/bus.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallInput, ReplyAddress } from '../storage/calls/call-store.ts'
import type { Queries } from '../storage/databases/database.ts'
import { type RefusedMessage, refuseMessages } from '../storage/dead-letters/dead-letters.ts'
import type { Codec, Decoded } from './codecs/codec.ts'
import { type Delivery, type Message, packMessage, type Transport } from './transports/transport.ts'

/** A message that cannot become a call. */
export interface Refusal {
  readonly error: ToolError
  /** The identified sender; absent when the message was refused before that. */
  readonly sender?: Identity | undefined
  /** The reply address of the refusal. */
  readonly address?: ReplyAddress | undefined
  /** Whether the refusal is also a dead letter: the message could not be decoded, or it has no reply address. */
  readonly dead: boolean
  readonly deliveries: number
  readonly source: string
  readonly position: string
  /** Absent when the message was removed before it was read. */
  readonly message?: Message
  readonly codec?: Codec | undefined
  readonly tool?: string | undefined
}

/** What the inbound messages of a broker need from the service; each result is durable when it resolves. */
export interface InboundPorts {
  readonly transport: Transport
  /** The codec that recognises a message. */
  readonly codecOf: (message: Message) => Codec | undefined
  /** The identity of the sender as the host knows it; rejects with UNAUTHENTICATED when it is unknown. */
  readonly identify: (decoded: Decoded & { kind: 'call' }, message: Message) => Promise<Identity>
  /**
   * Resolves the call against the catalog: its tool by id, CATALOG_STALE when the sender saw another one. A tool that
   * is hidden from the sender is refused like one that does not exist.
   */
  readonly understand: (decoded: Decoded & { kind: 'call' }, sender: Identity) => Promise<CallInput>
  readonly submit: (
    input: CallInput,
    identity: Identity,
    address: ReplyAddress | undefined,
  ) => Promise<{ readonly callId: string; readonly repeated: boolean }>
  /** The call exists already: this sender, too, gets its outcome. */
  readonly attach: (callId: string, address: ReplyAddress, identity: Identity) => Promise<void>
  readonly refuse: (refusal: Refusal) => Promise<void>
  /** Called when a message is done, so that a slot may be free. */
  readonly left?: () => void
  readonly bus: Bus
}

interface Inbound {
  /** Handles deliveries; never rejects. A delivery that cannot be handled now is released to its broker. */
  take(deliveries: readonly Delivery[]): void
  /** The number of messages in flight. */
  readonly size: number
  /** Resolves when no message is in flight. */
  empty(): Promise<void>
}

/** The number of unexpected failures after which a message becomes a dead letter. */
const mostFaults = 5
const firstPauseMs = 200
const longestPauseMs = 10_000

/**
 * Makes calls of messages. Each message is decoded, its sender identified, and its call stored; or it is refused, and
 * the refusal stored. Only then is it settled, so that after a crash in between it is delivered again. A call that was
 * stored before is found by its key, and its sender gets a further reply. While the store is unavailable, or full,
 * messages stay with their broker.
 */
export function createInbound(ports: InboundPorts): Inbound {
  const { transport, bus } = ports
  const settling = createBatch<Delivery, void>(
    async (deliveries) => {
      await transport.settle(deliveries)
      return deliveries.map(() => undefined)
    },
    // The stored call goes first: a caller waits for it.
    { sooner: setImmediate },
  )
  const open = new Set<Promise<void>>()
  const one = async (delivery: Delivery): Promise<void> => {
    const next = await handle(delivery, ports)
    // A message that an unavailable broker could not settle is delivered again, and its call is found by its key.
    if (next === 'settle') return settling.add(delivery).catch(() => undefined)
    bus.emit('message:held', { transport: transport.kind, id: delivery.id, reason: next.reason })
    await transport.release([delivery], next.delayMs).catch(() => undefined)
  }
  return {
    take(deliveries) {
      for (const delivery of deliveries) {
        const done = one(delivery).finally(() => {
          open.delete(done)
          ports.left?.()
        })
        open.add(done)
      }
    },
    get size() {
      return open.size
    },
    async empty() {
      while (open.size > 0) await Promise.all(open)
    },
  }
}

type Next = 'settle' | { readonly delayMs: number; readonly reason: string }

async function handle(delivery: Delivery, ports: InboundPorts): Promise<Next> {
  try {
    await admitted(delivery, ports)
    return 'settle'
  } catch (error) {
    const { deliveries } = delivery
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(deliveries - 1, 10))
    const wish = ToolError.is(error) ? error.details?.retryAfterMs : undefined
    const reason = ToolError.is(error) ? error.message : `Internal error: ${String(error)}`
    return { delayMs: typeof wish === 'number' ? Math.max(wish, pauseMs) : pauseMs, reason }
  }
}

/** Resolves when the message is stored durably: as a call, or as a refusal. */
async function admitted(delivery: Delivery, ports: InboundPorts): Promise<void> {
  const { body, deliveries } = delivery
  if (body.kind === 'claimed')
    throw new ToolError('INTERNAL', 'A broker transport delivered a claimed call instead of a message.')
  if (body.kind === 'gone') {
    ports.bus.emit('message:gone', { source: body.source, position: body.position })
    return ports.refuse({ error: removed(), dead: true, deliveries, source: body.source, position: body.position })
  }
  const { message } = body
  const { source, position } = message
  const codec = ports.codecOf(message)
  const decoded: Decoded = codec?.decode(message) ?? { kind: 'invalid', error: foreign() }
  const about = { deliveries, source, position, message, codec, address: decoded.address }
  if (decoded.kind === 'invalid') return ports.refuse({ ...about, error: decoded.error, dead: true })
  let sender: Identity | undefined
  try {
    sender = await ports.identify(decoded, message)
    await keep(decoded, sender, ports)
  } catch (error) {
    const final = finalError(error, deliveries)
    if (final === undefined) throw error
    const dead = final.code === 'INTERNAL' || decoded.address === undefined
    await ports.refuse({ ...about, error: final, dead, tool: decoded.input.tool, sender })
  }
}

async function keep(decoded: Decoded & { kind: 'call' }, identity: Identity, ports: InboundPorts): Promise<void> {
  const input = await ports.understand(decoded, identity)
  const { callId, repeated } = await ports.submit(input, identity, decoded.address)
  if (repeated && decoded.address !== undefined) await ports.attach(callId, decoded.address, identity)
}

/** Codes of conditions that pass; every other code is a refusal. */
const passing: readonly string[] = ['STORE_UNAVAILABLE', 'SERVICE_UNAVAILABLE', 'RATE_LIMITED', 'SECRET_UNAVAILABLE']
/** The number of deliveries after which a message that is left to another worker is refused: there may be none. */
const mostLeft = 50
/**
 * The number of deliveries after which a message of a sender over its own limit is refused; otherwise such messages
 * would accumulate.
 */
const mostLimited = 5
const longestLimitedMs = 10_000

/** The error to refuse the message with; undefined when a later delivery may succeed. */
function finalError(error: unknown, deliveries: number): ToolError | undefined {
  if (ToolError.is(error) && error.code !== 'INTERNAL') {
    return passing.includes(error.code) && mayWait(error, deliveries) ? undefined : error
  }
  if (deliveries < mostFaults) return undefined
  const text = `The message could not be handled in ${deliveries} deliveries; the log has the cause.`
  return new ToolError('INTERNAL', text, { cause: error, effect: 'none' })
}

/** A message waits for a full queue; a sender that stays over its own limit is refused. */
function mayWait({ code, details }: ToolError, deliveries: number): boolean {
  if (code === 'SERVICE_UNAVAILABLE') return deliveries < mostLeft
  if (code !== 'RATE_LIMITED' || details?.scope !== 'caller') return true
  return deliveries < mostLimited && Number(details.retryAfterMs ?? 0) <= longestLimitedMs
}

function removed(): ToolError {
  const text = 'The message was removed from its stream before it was settled; its content is unknown.'
  return new ToolError('PAYLOAD_INVALID', text)
}

function foreign(): ToolError {
  return new ToolError('PAYLOAD_INVALID', 'No codec recognises this message.')
}

/**
 * Encodes the reply to a sender whose message is refused; undefined when its codec or broker is not configured here.
 */
interface RefusalReplies {
  refusal(address: ReplyAddress, error: ToolError): { readonly target: string; readonly body: string } | undefined
}

interface RefuseOptions {
  readonly database: Queries
  readonly answers: RefusalReplies
  readonly bus: Bus
  readonly sources: RefusalSources
  readonly now?: () => Date
}

/** The tenant and the broker of the topic or stream that a message came from. */
interface RefusalSources {
  /** The tenant of refusals of a source when the sender is unknown. */
  tenantOf(source: string): string
  /** The broker of a source. */
  transportOf(source: string): string
}

/** The sources of the settings; a source that they do not name belongs to the tenant of the service's own identity. */
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

/** The most bytes of an undecodable message that a dead letter keeps. */
const mostShown = 16_384

/**
 * Stores a refusal: its reply, the message for the broker's own dead letters, and the dead letter, in one statement.
 * They belong to the sender's tenant, because no other tenant may read the content of the message.
 */
export function createMessageRefusals(options: RefuseOptions): (refusal: Refusal) => Promise<void> {
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
  const deadLetter =
    dead && message !== undefined ? codec?.deadLetter?.(message, { error, deliveries }, now()) : undefined
  const messages = [
    ...(answer === undefined ? [] : [answer]),
    ...(deadLetter === undefined
      ? []
      : [{ target: deadLetter.to, body: packMessage(sources.transportOf(source), deadLetter) }]),
  ]
  const payload = message === undefined ? {} : { payload: shown(message.bytes) }
  const tenant = sender?.tenant ?? sources.tenantOf(source)
  return {
    tenant,
    source,
    position,
    deliveries,
    code: error.code,
    reason: error.message,
    tool,
    messages,
    ...(dead ? { dead: payload } : {}),
  }
}

/** The beginning of the bytes, as text where they are text. */
function shown(bytes: Uint8Array): string {
  const beginning = Buffer.from(bytes.subarray(0, mostShown))
  const text = beginning.toString('utf8')
  return Buffer.from(text).equals(beginning) ? text : `base64:${beginning.toString('base64')}`
}
