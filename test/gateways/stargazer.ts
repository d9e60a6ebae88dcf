import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { decode, encode } from '@msgpack/msgpack'
import { Redis } from 'ioredis'
import { waitingFor } from './waiting.ts'

/** A Stargazer inference tier that uses Redis only, and no code of Gantry. */
export interface StargazerGatewayOptions {
  readonly redisUrl: string
  /** Part of the name of its reply stream; random by default. */
  readonly worker?: string
  /** `sg:stream:tools` */
  readonly stream?: string
  /** The user of its session. */
  readonly session?: SessionRecord
  /** The length to which it trims the job stream, read or not: 100,000, as the original does; 0 for never. */
  readonly maxlen?: number
  /** Called when Redis has the request. */
  readonly onSent?: (sent: { readonly correlationId: string; readonly entry: string; readonly tool: string }) => void
  /** Called with every reply, also with a repeated or an unexpected one. */
  readonly onReply?: (reply: StargazerReply, awaited: boolean) => void
}

export interface SessionRecord {
  readonly user_id: string
  readonly guild_id: string
  readonly channel_id: string
  readonly platform: string
}

export interface StargazerReply {
  readonly correlation_id: string | null
  readonly result?: string
  readonly writeback?: {
    readonly sent_files: readonly {
      readonly filename: string
      readonly mime_type: string
      readonly [key: string]: unknown
    }[]
    readonly injected_tools: readonly string[]
    readonly sent_rich_messages: readonly unknown[]
  }
  readonly error?: string
  readonly code?: string
  readonly status?: string
  /** On an interim reply: the task id of the call. */
  readonly task_id?: string
}

export interface StargazerCallOptions {
  readonly correlationId?: string
  /** The correlation id by default; `null` leaves it out. */
  readonly idemKey?: string | null
  /** That of the mirrored catalog by default; `null` leaves it out. */
  readonly schemaHash?: string | null
  readonly traceId?: string
  readonly replyTo?: string | null
  /** More members of the envelope, such as forged ones. */
  readonly extra?: { readonly [key: string]: unknown }
  readonly ctx?: { readonly [key: string]: unknown }
  /** 30 s */
  readonly timeoutMs?: number
}

export interface StargazerCatalog {
  readonly version: number
  readonly schema_hash: string
  readonly tools: readonly { readonly [key: string]: unknown }[]
  readonly permissions: unknown
}

export interface StargazerGateway {
  readonly replyStream: string
  /** The trace of its own session, which is kept alive while the gateway is open. */
  readonly traceId: string
  /** The catalog as last mirrored; undefined if there is none. */
  catalog(): StargazerCatalog | undefined
  /** Reads the catalog again; happens automatically at each announcement. */
  refresh(): Promise<void>
  openSession(traceId: string, record?: SessionRecord, seconds?: number): Promise<void>
  /** Sends a request and waits for its reply. */
  call(tool: string, args: object, options?: StargazerCallOptions): Promise<StargazerReply>
  /** Sends a request without waiting; resolves with its correlation id. */
  send(tool: string, args: object, options?: StargazerCallOptions): Promise<string>
  /** Requests without a reply so far. */
  readonly pending: number
  close(): Promise<void>
}

const ownSession: SessionRecord = { user_id: 'u-1', guild_id: 'g-1', channel_id: 'ch-1', platform: 'discord' }
const sessionSeconds = 300
const keys = { catalog: 'sg:tools:catalog', session: 'sg:tools:session:', channel: 'sg:pubsub:tools:catalog' }

/**
 * Opens a gateway: its session record is written, the catalog mirrored, and its reply stream read.
 * Requests of one turn of the event loop travel together.
 */
export async function stargazerGateway(options: StargazerGatewayOptions): Promise<StargazerGateway> {
  const { redisUrl, worker = randomUUID().slice(0, 8), stream = 'sg:stream:tools', maxlen = 100_000 } = options
  const { session = ownSession, onSent, onReply } = options
  const replyStream = `sg:stream:tools:replies:inference-${worker}`
  const traceId = randomUUID().replaceAll('-', '')
  const redis = connect(redisUrl, { enableAutoPipelining: true })
  const reader = connect(redisUrl)
  const listener = connect(redisUrl)
  const waiting = waitingFor<StargazerReply>('The Stargazer gateway')
  const state: { catalog?: StargazerCatalog; closed: boolean } = { closed: false }

  const openSession = async (id: string, record = session, seconds = sessionSeconds) => {
    await redis.set(`${keys.session}${id}`, Buffer.from(encode(record)), 'EX', seconds)
  }
  const refresh = async () => {
    const version = await redis.get(`${keys.catalog}:current`)
    const bytes = version === null ? null : await redis.getBuffer(`${keys.catalog}:v${version}`)
    if (bytes !== null)
      state.catalog = { version: Number(version), ...(decode(bytes) as Omit<StargazerCatalog, 'version'>) }
  }
  const send = async (tool: string, args: object, how: StargazerCallOptions, correlationId: string) => {
    const hash = how.schemaHash === undefined ? state.catalog?.schema_hash : how.schemaHash
    const trace = how.traceId ?? traceId
    const envelope = {
      correlation_id: correlationId,
      ...(how.replyTo === null ? {} : { reply_to: how.replyTo ?? replyStream }),
      ...(how.idemKey === null ? {} : { idem_key: how.idemKey ?? correlationId }),
      ...(hash === null || hash === undefined ? {} : { schema_hash: hash }),
      tool_name: tool,
      tool_args: args,
      ctx: {
        trace_id: trace,
        observability_request_id: trace,
        platform: session.platform,
        channel_id: session.channel_id,
        user_name: 'Ada',
        message_id: '1',
        disclosed_skill_ids: [],
        room_context: null,
        ...how.ctx,
      },
      ...how.extra,
    }
    const trim = maxlen > 0 ? (['MAXLEN', '~', maxlen] as const) : []
    const entry = await redis.xadd(stream, ...trim, '*', 'data', Buffer.from(encode(envelope)))
    onSent?.({ correlationId, entry: String(entry), tool })
    return correlationId
  }
  const readReplies = async () => {
    let last = '0-0'
    while (!state.closed) {
      try {
        const found = await reader.xreadBuffer('COUNT', 1_000, 'BLOCK', 1_000, 'STREAMS', replyStream, last)
        for (const [id, fields] of entriesOf(found)) {
          last = id
          const reply = decode(dataOf(fields)) as StargazerReply
          const awaited = waiting.settle(String(reply.correlation_id), reply)
          onReply?.(reply, awaited)
        }
      } catch {
        if (!state.closed) await sleep(50)
      }
    }
  }

  await Promise.all([openSession(traceId), refresh()])
  await listener.subscribe(keys.channel)
  listener.on('message', () => void refresh().catch(() => undefined))
  const alive = setInterval(() => void openSession(traceId).catch(() => undefined), (sessionSeconds * 1_000) / 3)
  alive.unref()
  const reading = readReplies()
  return {
    replyStream,
    traceId,
    refresh,
    openSession,
    catalog: () => state.catalog,
    send: (tool, args, how = {}) => send(tool, args, how, how.correlationId ?? randomUUID()),
    async call(tool, args, how = {}) {
      const id = how.correlationId ?? randomUUID()
      const answer = waiting.add(id, how.timeoutMs ?? 30_000)
      send(tool, args, how, id).catch((error: Error) => waiting.fail(id, error))
      return await answer
    },
    get pending() {
      return waiting.size
    },
    async close() {
      state.closed = true
      clearInterval(alive)
      waiting.close()
      reader.disconnect()
      listener.disconnect()
      await reading
      await redis.del(replyStream).catch(() => undefined)
      redis.disconnect()
    },
  }
}

/** Survives a restart of Redis: requests wait, and the reader resumes. */
function connect(url: string, more = {}): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 100, ...more })
  redis.on('error', () => undefined)
  return redis
}

/** The entries of the one requested stream, in RESP2 or RESP3. */
function entriesOf(found: unknown): (readonly [string, readonly Buffer[]])[] {
  if (!Array.isArray(found)) return []
  const entries = Array.isArray(found[0]) ? found[0][1] : found[1]
  return (entries as [Buffer, Buffer[]][]).map(([id, fields]) => [id.toString(), fields])
}

function dataOf(fields: readonly Buffer[]): Buffer {
  for (let at = 0; at < fields.length; at += 2)
    if (fields[at]?.toString() === 'data') return fields[at + 1] ?? Buffer.of()
  return fields[1] ?? Buffer.of()
}
