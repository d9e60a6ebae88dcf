import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Consumer, type ConsumerOptions, type Message, Producer } from '@platformatic/kafka'
import { pythonJson } from './python-json.ts'
import { waitingFor } from './waiting.ts'

/** A SomaStack gateway that uses Kafka only, and no code of Gantry. */
export interface SomastackGatewayOptions {
  /** `host:port`, one or more. */
  readonly brokers: string | readonly string[]
  /** `somastack.tools` */
  readonly requestsTo?: string
  /** `somastack.tool_results` */
  readonly resultsFrom?: string
  /** The topic of the conversation's events: starts, progress and ends; not read if absent. */
  readonly outboundFrom?: string
  readonly sessionId?: string
  readonly personaId?: string | null
  /** The tenant in metadata and headers; `default`, as in the original gateway. */
  readonly tenant?: string
  /** More options of the clients, such as SASL. */
  readonly client?: Partial<ConsumerOptions<Buffer, Buffer, Buffer, Buffer>>
  /** Called when Kafka has the request. */
  readonly onSent?: (sent: { readonly eventId: string; readonly tool: string }) => void
  /** Called with every result of its session, also with a repeated or an unexpected one. */
  readonly onResult?: (result: SomastackResult, awaited: boolean) => void
  /** Gets every event of the conversation. */
  readonly onEvent?: (event: SomastackEvent) => void
}

/** An event of the conversation. */
export interface SomastackEvent {
  readonly event_id: string
  readonly session_id: string
  readonly role: string
  readonly type: string
  readonly version: string
  readonly message: string
  readonly metadata: { readonly [key: string]: unknown }
}

export interface SomastackResult {
  readonly event_id: string
  readonly session_id: string
  readonly persona_id: string | null
  readonly tool_name: string
  readonly status: 'success' | 'error' | 'timeout' | 'blocked' | 'circuit_open'
  readonly payload: { readonly [key: string]: unknown }
  readonly metadata: { readonly request_id?: string; readonly [key: string]: unknown }
  readonly execution_time: number
  readonly trace_context?: { readonly [key: string]: string }
  /** The headers of the record. */
  readonly headers: { readonly [name: string]: string }
}

export interface SomastackCallOptions {
  /** Id of the event, and of the request in its metadata. */
  readonly eventId?: string
  readonly sessionId?: string
  readonly traceparent?: string
  /** More of the metadata, and of the event. */
  readonly metadata?: { readonly [key: string]: unknown }
  readonly extra?: { readonly [key: string]: unknown }
  /** 30 s */
  readonly timeoutMs?: number
}

export interface SomastackGateway {
  readonly sessionId: string
  /** Sends a request and waits for its result. */
  call(tool: string, args: object, options?: SomastackCallOptions): Promise<SomastackResult>
  /** Sends a request without waiting; resolves with the id of its event when Kafka has it. */
  send(tool: string, args: object, options?: SomastackCallOptions): Promise<string>
  /** Requests without a result so far. */
  readonly pending: number
  close(): Promise<void>
}

interface Queued {
  readonly message: { topic: string; value: Buffer; headers: Map<Buffer, Buffer> }
  done(): void
  fail(error: Error): void
}

const mostAtOnce = 500

/** Opens a gateway that receives every result from then on; concurrent requests are sent in batches. */
export async function somastackGateway(options: SomastackGatewayOptions): Promise<SomastackGateway> {
  const { requestsTo = 'somastack.tools', resultsFrom = 'somastack.tool_results', tenant = 'default' } = options
  const { sessionId = randomUUID(), personaId = null, onSent, onResult } = options
  const client = {
    clientId: 'somastack-gateway',
    bootstrapBrokers: [options.brokers].flat(),
    retries: 5,
    retryDelay: 100,
    ...options.client,
  }
  const waiting = waitingFor<SomastackResult>('The SomaStack gateway')
  const producer = new Producer(client)
  const sessions = new Set([sessionId])
  const results = await readTopic(client, resultsFrom, (message) => {
    const result = resultOf(message)
    if (result === undefined || !sessions.has(result.session_id)) return
    const awaited = waiting.settle(String(result.metadata.request_id), result)
    onResult?.(result, awaited)
  })

  const { outboundFrom, onEvent } = options
  const watched =
    outboundFrom === undefined
      ? undefined
      : await readTopic(client, outboundFrom, ({ value }) => {
          const event = JSON.parse(value.toString()) as SomastackEvent
          if (sessions.has(event.session_id)) onEvent?.(event)
        })

  const queue: Queued[] = []
  const state = { flushing: false, closed: false }
  const flush = async () => {
    if (state.flushing) return
    state.flushing = true
    while (queue.length > 0) {
      const batch = queue.splice(0, mostAtOnce)
      const failure = await sendUntilTaken(batch)
      for (const one of batch) failure === undefined ? one.done() : one.fail(failure)
    }
    state.flushing = false
  }
  /** Retries while the broker is unavailable; events keep their ids, so that a duplicate is harmless. */
  const sendUntilTaken = async (batch: readonly Queued[]): Promise<Error | undefined> => {
    while (true) {
      try {
        await producer.send({ messages: batch.map(({ message }) => message), acks: -1 })
        return undefined
      } catch (error) {
        if (state.closed || !mayPass(error)) return error as Error
        await sleep(200)
      }
    }
  }
  const send = async (tool: string, args: object, how: SomastackCallOptions, eventId: string) => {
    const session = how.sessionId ?? sessionId
    sessions.add(session)
    const event = {
      event_id: eventId,
      session_id: session,
      persona_id: personaId,
      tool_name: tool,
      args,
      metadata: { tenant, request_id: eventId, source: 'tool_orchestrator', ...how.metadata },
      ...how.extra,
      trace_context: how.traceparent === undefined ? {} : { traceparent: how.traceparent },
    }
    const headers = headersOf({ tenant, session, persona: personaId ?? '', eventId })
    const message = { topic: requestsTo, value: Buffer.from(pythonJson(event)), headers }
    await new Promise<void>((done, fail) => {
      queue.push({ message, done, fail })
      setImmediate(() => void flush())
    })
    onSent?.({ eventId, tool })
    return eventId
  }
  return {
    sessionId,
    send: (tool, args, how = {}) => send(tool, args, how, how.eventId ?? randomUUID()),
    async call(tool, args, how = {}) {
      const id = how.eventId ?? randomUUID()
      const answer = waiting.add(id, how.timeoutMs ?? 30_000)
      send(tool, args, how, id).catch((error: Error) => waiting.fail(id, error))
      return await answer
    },
    get pending() {
      return waiting.size
    },
    async close() {
      state.closed = true
      waiting.close()
      await Promise.all([producer.close(), results.close(), watched?.close()])
    },
  }
}

/** Whether an error is a network error, or retriable according to Kafka. */
function mayPass(error: unknown): boolean {
  const { code, canRetry, errors = [], cause } = error as FailureOfKafka
  return code === 'PLT_KFK_NETWORK' || canRetry === true || [...errors, ...(cause ? [cause] : [])].some(mayPass)
}

interface FailureOfKafka {
  readonly code?: string
  readonly canRetry?: boolean
  readonly errors?: readonly unknown[]
  readonly cause?: unknown
}

/** The headers of the original publisher: members that an event lacks are empty. */
function headersOf(of: { tenant: string; session: string; persona: string; eventId: string }): Map<Buffer, Buffer> {
  const headers = {
    tenant_id: of.tenant,
    session_id: of.session,
    persona_id: of.persona,
    event_type: '',
    event_id: of.eventId,
    schema: '',
    correlation_id: randomUUID(),
    timestamp_ms: String(Date.now()),
  }
  return new Map(Object.entries(headers).map(([name, value]) => [Buffer.from(name), Buffer.from(value)]))
}

function resultOf({ value, headers }: Message): SomastackResult | undefined {
  try {
    const event = JSON.parse(value.toString()) as SomastackResult
    const texts = [...headers].map(([name, text]) => [String(name), String(text)])
    return { ...event, metadata: event.metadata ?? {}, headers: Object.fromEntries(texts) }
  } catch {
    return undefined
  }
}

type ClientOptions = Omit<ConsumerOptions<Buffer, Buffer, Buffer, Buffer>, 'groupId'>

/** Reads a topic from its current end, and resumes at its offsets after an outage of the broker. */
async function readTopic(client: ClientOptions, topic: string, take: (message: Message) => void) {
  const state = { closed: false }
  const first = newConsumer(client)
  const ends = (await first.listOffsets({ topics: [topic] })).get(topic) ?? []
  const offsets = new Map(ends.map((offset, partition) => [partition, offset]))
  let consumer = first
  const open = async () => {
    const at = [...offsets].map(([partition, offset]) => ({ topic, partition, offset }))
    return await consumer.consume({ topics: [topic], mode: 'manual', offsets: at, maxWaitTime: 500, autocommit: false })
  }
  let stream = await open()
  const read = async () => {
    while (!state.closed) {
      try {
        for await (const message of stream) {
          offsets.set(message.partition, message.offset + 1n)
          take(message)
        }
      } catch {
        // The broker is unavailable; reading resumes at the saved offsets.
      }
      if (state.closed) return
      await sleep(100)
      await consumer.close(true).catch(() => undefined)
      consumer = newConsumer(client)
      stream = await open().catch(() => stream)
    }
  }
  const reading = read()
  return {
    async close() {
      state.closed = true
      await consumer.close(true).catch(() => undefined)
      await reading
    },
  }
}

function newConsumer(client: ClientOptions): Consumer<Buffer, Buffer, Buffer, Buffer> {
  const consumer = new Consumer({ ...client, groupId: `somastack-gateway-${randomUUID()}` })
  consumer.on('error', () => undefined)
  return consumer
}
