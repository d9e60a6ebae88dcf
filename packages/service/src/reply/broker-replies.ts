import { buffer } from 'node:stream/consumers'
import { type ChainResult, type Result, ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Codec, Reply, ReplyFile, SentMessage } from '../brokers/codecs/codec.ts'
import {
  type Outgoing,
  type Publisher,
  packMessage,
  type Sent,
  unpackMessage,
} from '../brokers/transports/transport.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import { createBatch } from '../storage/batch.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import type { EndedNotices, Notices, TaskRecords } from './notices.ts'
import type { Send, Sending } from './relay.ts'

type Outcome = Result | ChainResult

export interface BrokerRepliesOptions {
  /** By the codec name of a reply address. */
  readonly codecs: ReadonlyMap<string, Codec>
  /** By transport. */
  readonly publishers: ReadonlyMap<string, Publisher>
  /** The outcomes of those calls that have one. */
  readonly outcomes: (callIds: readonly string[]) => Promise<ReadonlyMap<string, Outcome>>
  /** The files of an outcome, with the content of small ones. */
  readonly files: (outcome: Outcome, tenant: string) => Promise<readonly ReplyFile[]>
  /** Removes the replies to these calls from the outbox. */
  readonly answered: (callIds: readonly string[]) => Promise<void>
  /** Releases the replies to a relay at once, before this process's lease on them expires. */
  readonly unanswered: (callIds: readonly string[]) => Promise<void>
  /** Notices to gateways in addition to replies; none when absent. */
  readonly notices?: Pick<Notices, 'ended' | 'send'> | undefined
  readonly tasks?: Pick<TaskRecords, 'close'> | undefined
  readonly now: () => Date
}

/** Replies over brokers. */
export interface BrokerReplies {
  /** Replies to a call that just ended here; a failed reply is left to the relay. */
  tell(callId: string, address: ReplyAddress, outcome: Outcome, tenant: string): void
  /** Sends an item of the outbox that is for a broker. */
  readonly send: Send
  /** The reply to a refused message, for the outbox; undefined without a publisher for its transport. */
  refusal(address: ReplyAddress, error: ToolError): { readonly target: string; readonly body: string } | undefined
  /** Resolves when the replies of `tell` have been sent or given up. */
  settled(): Promise<void>
}

/** No caller waits for the mark of a sent reply, so that many share a statement; the lease on a reply is far longer. */
const gatherMs = 20
/** A broker that has not accepted a message by then gets it later, from a relay. */
const longestMs = 20_000

export function createBrokerReplies(options: BrokerRepliesOptions): BrokerReplies {
  const { codecs, publishers, outcomes, files, notices, tasks, now } = options
  const open = new Set<Promise<void>>()
  const sending = new Map(
    [...publishers].map(([name, publisher]) => [
      name,
      createBatch<Outgoing, Sent>((messages) => publisher.send(messages, AbortSignal.timeout(longestMs)), {
        most: 1_000,
        atOnce: 4,
      }),
    ]),
  )
  const marking = (mark: (callIds: readonly string[]) => Promise<void>) =>
    createBatch<string, void>(
      async (callIds) => {
        await mark(callIds)
        return callIds.map(() => undefined)
      },
      { most: 2_000, soon: (work) => setTimeout(work, gatherMs) },
    )
  const [answered, unanswered] = [marking(options.answered), marking(options.unanswered)]
  const reading = createBatch<string, Outcome | undefined>(
    async (callIds) => {
      const found = await outcomes(callIds)
      return callIds.map((callId) => found.get(callId))
    },
    { most: 64 },
  )
  const codecOf = ({ codec: name }: ReplyAddress): Codec => {
    const codec = codecs.get(name)
    if (codec === undefined) throw new ToolError('CONFIG_INVALID', `No codec "${name}" is configured.`)
    return codec
  }
  const publish = async (transport: string, message: Outgoing): Promise<Sending> => {
    const batch = sending.get(transport)
    if (batch === undefined) return { kind: 'again', error: `No publisher is configured for transport "${transport}".` }
    const became = await batch.add(message)
    return became.kind === 'again' ? { ...became, unavailable: true } : became
  }
  /** Replies; completes the record of the background task before that, and notifies subscribers of the end after it. */
  const reply = async (
    address: ReplyAddress,
    outcome: Outcome,
    tenant: string,
    background: boolean,
  ): Promise<Sending> => {
    const codec = codecOf(address)
    const those =
      'effects' in outcome && outcome.effects.some(({ kind }) => kind === 'file') ? await files(outcome, tenant) : []
    const ended: Reply = { kind: 'ended', result: outcome, files: those }
    const task = background ? codec.endedTask?.(address, ended, now()) : undefined
    const open = task === undefined ? undefined : await tasks?.close(task).catch((error: unknown) => error)
    if (ToolError.is(open) && open.retryable) return { kind: 'again', error: open.message, unavailable: true }
    const became = await publish(address.transport, codec.reply(address, ended, now()))
    const shown = became.kind === 'sent' ? codec.ended?.(address, ended, now()) : undefined
    if (shown !== undefined) await notices?.send(address.transport, shown)
    return became
  }
  const tell = async (
    callId: string,
    address: ReplyAddress,
    outcome: Outcome,
    tenant: string,
    noticed: EndedNotices | undefined,
  ): Promise<void> => {
    await noticed?.settled
    const { kind } = await reply(address, outcome, tenant, noticed?.background ?? false)
    await (kind === 'sent' ? answered : unanswered).add(callId)
  }
  const sendItem = async (item: OutboxItem): Promise<Sending> => {
    if (item.kind === 'message') {
      const { transport, message } = unpackMessage(item.body ?? '')
      return publish(transport, message)
    }
    const address: unknown = item.body === undefined ? item.reply : JSON.parse(item.body)
    if (address === undefined) return { kind: 'never', error: 'The call is no longer stored.' }
    if (!isReplyAddress(address)) return { kind: 'never', error: 'The reply address is malformed.' }
    const outcome = await reading.add(item.callId)
    if (outcome === undefined) return { kind: 'again', error: 'The call has not ended.' }
    await notices?.ended(item.callId).settled
    return reply(address, outcome, item.tenant, true)
  }
  return {
    tell(callId, address, outcome, tenant) {
      const noticed = notices?.ended(callId)
      if (!publishers.has(address.transport)) return
      const done = tell(callId, address, outcome, tenant, noticed)
        .catch(() => undefined)
        .finally(() => open.delete(done))
      open.add(done)
    },
    async send(item, signal) {
      try {
        return await sendItem(item)
      } catch (error) {
        signal.throwIfAborted()
        return { kind: 'again', error: ToolError.is(error) ? error.message : 'The reply could not be sent.' }
      }
    },
    refusal(address, error) {
      if (!publishers.has(address.transport)) return undefined
      const message = codecOf(address).reply(address, { kind: 'refused', error }, now())
      return { target: message.to, body: packMessage(address.transport, message) }
    },
    async settled() {
      while (open.size > 0) await Promise.all(open)
    },
  }
}

/** The limit of an inlined file; larger files, and those beyond the total, are fetched by the receiver. */
const mostInline = 262_144
const mostTogether = 1_048_576

/** The files that a call attached, with the content of small ones. */
export async function replyFiles(
  outcome: Result | ChainResult,
  tenant: string,
  artifacts: Pick<Artifacts, 'open'>,
): Promise<readonly ReplyFile[]> {
  const effects = 'effects' in outcome ? outcome.effects : []
  let bytesLeft = mostTogether
  const files: ReplyFile[] = []
  for (const effect of effects) {
    if (effect.kind !== 'file') continue
    const { id, name, mimeType, bytes, digest } = effect.artifact
    const file = { name, mimeType, bytes, digest, artifact: id }
    if (bytes > mostInline || bytes > bytesLeft) {
      files.push(file)
      continue
    }
    bytesLeft -= bytes
    const { content } = await artifacts.open(id, tenant, undefined, AbortSignal.timeout(10_000))
    files.push({ ...file, content: await buffer(content) })
  }
  return files
}

/** The same, bound to one artifact store. */
export function replyFilesOf(artifacts: Pick<Artifacts, 'open'>) {
  return (outcome: Result | ChainResult, tenant: string) => replyFiles(outcome, tenant, artifacts)
}

/** Encodes a message of a tool for the gateway of its call; undefined when the codec has no format for messages. */
export function messageEncoder(codecs: ReadonlyMap<string, Codec>) {
  return (address: ReplyAddress, sent: SentMessage): { readonly target: string; readonly body: string } | undefined => {
    const message = codecs.get(address.codec)?.send?.(address, sent, new Date())
    return message === undefined ? undefined : { target: message.to, body: packMessage(address.transport, message) }
  }
}

function isReplyAddress(value: unknown): value is ReplyAddress {
  return isObject(value) && isText(value.codec) && isText(value.transport) && isText(value.to) && isObject(value.data)
}
