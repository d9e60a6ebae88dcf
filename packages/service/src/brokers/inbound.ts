import { type Identity, ToolError } from '@gantry/contract'
import type { BrokerSettings } from '../config/broker-settings.ts'
import type { Bus } from '../observe/bus.ts'
import { createBatch } from '../storage/batch.ts'
import type { CallInput } from '../storage/call-input.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'
import type { Queries } from '../storage/databases/database.ts'
import { type RefusedMessage, refuseMessages } from '../storage/dead-letters/refused-messages.ts'
import type { Codec, Decoded } from './codecs/codec.ts'
import { type Message, packMessage } from './transports/message.ts'
import type { Delivery, Transport } from './transports/transport.ts'

/** A message that cannot become a call. */
export interface Refusal {
  readonly error: ToolError
  /** Whose it is; absent when it was refused before anybody knew. */
  readonly sender?: Identity | undefined
  /** Who is to be told. */
  readonly address?: ReplyAddress | undefined
  /** Also a dead letter: it could not be read, or there is nobody to tell. */
  readonly dead: boolean
  readonly deliveries: number
  readonly source: string
  readonly position: string
  /** Absent when it was removed before anybody read it. */
  readonly message?: Message
  readonly codec?: Codec | undefined
  readonly tool?: string | undefined
}

/** What a broker's door needs of the service; each is durable when it resolves. */
export interface InboundPorts {
  readonly transport: Transport
  /** The codec that speaks the language of a message. */
  readonly codecOf: (message: Message) => Codec | undefined
  /** Who sent it, as the host knows; UNAUTHENTICATED when nobody does. */
  readonly identify: (decoded: Decoded & { kind: 'call' }, message: Message) => Promise<Identity>
  /**
   * The call in the words of the catalog: its tool by its id, CATALOG_STALE when the sender saw another one. Of a tool
   * that is not there for him he hears what he would hear of one that nobody has.
   */
  readonly understand: (decoded: Decoded & { kind: 'call' }, sender: Identity) => Promise<CallInput>
  readonly submit: (
    input: CallInput,
    identity: Identity,
    address: ReplyAddress | undefined,
  ) => Promise<{ readonly callId: string; readonly repeated: boolean }>
  /** The call was there already: this sender, too, gets its outcome. */
  readonly attach: (callId: string, address: ReplyAddress, identity: Identity) => Promise<void>
  readonly refuse: (refusal: Refusal) => Promise<void>
  /** Told when a message is no longer in hand, so that there may be room for another one. */
  readonly left?: () => void
  readonly bus: Bus
}

interface Inbound {
  /** Takes deliveries; never rejects, and what cannot be handled now is handed back to its broker. */
  take(deliveries: readonly Delivery[]): void
  /** Messages in hand. */
  readonly size: number
  /** Resolves when none is in hand. */
  empty(): Promise<void>
}

/** So often a message that nothing is known to be wrong with may fail here before it is given up. */
const mostFaults = 5
const firstPauseMs = 200
const longestPauseMs = 10_000

/**
 * Makes calls of messages. Each is read, its sender identified, and the call kept; or it is refused, and the refusal kept.
 * Only then is it settled, so that whatever dies in between, it comes again. A call that was kept before is found by its
 * key, and answered once more. While the store is away, or full, messages stay with their broker.
 */
export function createInbound(ports: InboundPorts): Inbound {
  const { transport, bus } = ports
  const settling = createBatch<Delivery, void>(
    async (deliveries) => {
      await transport.settle(deliveries)
      return deliveries.map(() => undefined)
    },
    // The call that was kept goes first: somebody waits for that.
    { sooner: setImmediate },
  )
  const open = new Set<Promise<void>>()
  const one = async (delivery: Delivery): Promise<void> => {
    const next = await handle(delivery, ports)
    // What a broker that is away does not hear now comes again, and is found to be done.
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
    const reason = ToolError.is(error) ? error.message : `A fault of the service: ${String(error)}`
    return { delayMs: typeof wish === 'number' ? Math.max(wish, pauseMs) : pauseMs, reason }
  }
}

/** Resolves when the message is in safe hands: as a call, or refused. */
async function admitted(delivery: Delivery, ports: InboundPorts): Promise<void> {
  const { body, deliveries } = delivery
  if (body.kind === 'claimed') throw new ToolError('INTERNAL', 'A broker handed over a call that was claimed already.')
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

/** What waiting will mend; everything else is a refusal. */
const passing: readonly string[] = ['STORE_UNAVAILABLE', 'SERVICE_UNAVAILABLE', 'RATE_LIMITED', 'SECRET_UNAVAILABLE']
/** So often a message is left to another worker, who may not be there. */
const mostLeft = 50
/** So often a message of one who is over a limit of his own is held back; what he sends more of would pile up here. */
const mostLimited = 5
const longestLimitedMs = 10_000

/** Undefined for what may go well the next time. */
function finalError(error: unknown, deliveries: number): ToolError | undefined {
  if (ToolError.is(error) && error.code !== 'INTERNAL') {
    return passing.includes(error.code) && mayWait(error, deliveries) ? undefined : error
  }
  if (deliveries < mostFaults) return undefined
  const text = `The message could not be handled, ${deliveries} times.`
  return new ToolError('INTERNAL', text, { cause: error, effect: 'none' })
}

/** A full queue is nobody's fault, and waits; who is over his own limit hears of it when it lasts. */
function mayWait({ code, details }: ToolError, deliveries: number): boolean {
  if (code === 'SERVICE_UNAVAILABLE') return deliveries < mostLeft
  if (code !== 'RATE_LIMITED' || details?.scope !== 'caller') return true
  return deliveries < mostLimited && Number(details.retryAfterMs ?? 0) <= longestLimitedMs
}

function removed(): ToolError {
  const text = 'The message was removed from its stream before anybody had settled it; what it asked for is not known.'
  return new ToolError('PAYLOAD_INVALID', text)
}

function foreign(): ToolError {
  return new ToolError('PAYLOAD_INVALID', 'The message is of no form that is spoken here.')
}

/** Encodes the reply to a sender whose message is refused; undefined when no codec here speaks to it. */
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

/** What is known of the topic or stream that a message came from. */
interface RefusalSources {
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
