import { setTimeout as sleep } from 'node:timers/promises'
import { type Identity, ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { type Decoded, pickCodec } from './codecs/codec.ts'
import { createInbound, type InboundPorts } from './inbound.ts'
import type { BrokerSource } from './open-brokers.ts'
import type { Delivery, Transport } from './transports/transport.ts'

export interface ConsumerOptions {
  readonly transport: Transport
  /** The number of free slots; called before each `receive`. */
  readonly freeSlots: () => number
  /** Receives the deliveries; the consumer does not wait for their handling. */
  readonly take: (deliveries: readonly Delivery[]) => void
  /** Called when the transport fails and when it answers again. */
  readonly failed: (error: ToolError) => void
  readonly answered: () => void
  /** Called when a `receive` begins and no delivery is known to be left. */
  readonly idled?: () => void
  /**
   * Awaited after each `take`, so that its deliveries start before the next `receive`; absent, there is no such pause.
   */
  readonly turn?: () => Promise<unknown>
  readonly random: () => number
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

export interface Consumer {
  /** Runs until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>
  /** Continues if a slot is free by now; undefined unless the consumer waits for a slot. */
  readonly freed: (() => void) | undefined
  /** Whether the last `receive` left nothing, so that a new call overtakes none. */
  readonly idle: boolean
}

const most = 500
const firstPauseMs = 100
const longestPauseMs = 5_000
/** The timeout of the first `receive` after a failure: its end shows that the transport answers again. */
const shortLookMs = 1_000

/**
 * Receives deliveries while slots are free, in as few and large batches as possible. While the transport fails, the
 * consumer pauses, each time up to twice as long, so that many workers do not reconnect at the same moment.
 */
export function createConsumer(options: ConsumerOptions): Consumer {
  const { transport, freeSlots, take, failed, answered, idled, turn, random, pause } = options
  /** Read for every call, hence plain members. */
  const state: { idle: boolean; freed: (() => void) | undefined } = { idle: false, freed: undefined }

  const untilFreeSlots = async (signal: AbortSignal): Promise<void> => {
    if (signal.aborted || freeSlots() > 0) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stopListening()
        state.freed = undefined
        resolve()
      }
      const stopListening = onAbort(signal, done)
      state.freed = () => {
        if (freeSlots() > 0) done()
      }
    })
  }
  const step = async (signal: AbortSignal, failing: boolean): Promise<void> => {
    let asked = 0
    // A free slot may be taken again; a `receive` of zero would wait for nothing.
    while (asked === 0 && !signal.aborted) {
      await untilFreeSlots(signal)
      asked = Math.min(most, freeSlots())
    }
    if (signal.aborted) return
    state.idle = true
    idled?.()
    const look = failing ? AbortSignal.any([signal, AbortSignal.timeout(shortLookMs)]) : signal
    const deliveries = await transport.receive(asked, look)
    state.idle = deliveries.length < asked
    if (deliveries.length === 0) return
    take(deliveries)
    await turn?.()
  }
  return Object.assign(state, {
    async run(signal: AbortSignal) {
      let pauseMs = firstPauseMs
      while (!signal.aborted) {
        try {
          await step(signal, pauseMs > firstPauseMs)
          pauseMs = firstPauseMs
          answered()
        } catch (error) {
          state.idle = false
          failed(error as ToolError)
          await pause(pauseMs * (0.5 + random() / 2), signal)
          pauseMs = Math.min(longestPauseMs, pauseMs * 2)
        }
      }
    },
  })
}

/** The free slots of the worker of this process. */
interface WorkerSlots {
  readonly freeSlots: number
  /** Calls the listener whenever slots may have become free; returns the function that unsubscribes it. */
  onFreeSlots(listener: () => void): () => void
}

export interface ConsumeOptions extends Pick<InboundPorts, 'submit' | 'attach' | 'refuse' | 'bus'> {
  readonly sources: readonly BrokerSource[]
  readonly worker: WorkerSlots
  /** The identity of a session; rejects with UNAUTHENTICATED. */
  readonly session: (session: string) => Promise<Identity>
  readonly understand: InboundPorts['understand']
}

/** Consumers that receive messages while the worker has free slots. */
interface RunningConsumers {
  /** Receives no more, and resolves when the messages in flight are settled or released. */
  stop(): Promise<void>
}

/** The most messages in flight; each is a call that the worker has a slot for, or a refusal. */
const mostInHand = 1_000

export function consumeBrokers(options: ConsumeOptions): RunningConsumers {
  const open = options.sources.map((source) => consumeSource(source, options))
  return {
    async stop() {
      await Promise.all(open.map((end) => end()))
    },
  }
}

function consumeSource(source: BrokerSource, options: ConsumeOptions): () => Promise<void> {
  const { transport, codecs, kind } = source
  const { worker, bus } = options
  const stopping = new AbortController()
  const receiving = { dependency: kind, operation: 'receive' }
  const inbound = createInbound({
    transport,
    codecOf: (message) => pickCodec(codecs, message),
    identify: (decoded) => identify(decoded, source, options),
    understand: options.understand,
    submit: options.submit,
    attach: options.attach,
    // A message that no codec recognises becomes a dead letter in the format of the first codec.
    refuse: (refusal) => options.refuse({ ...refusal, codec: refusal.codec ?? codecs[0] }),
    // A message that became no call takes no slot of the worker.
    left: () => consumer.freed?.(),
    bus,
  })
  const consumer = createConsumer({
    transport,
    freeSlots: () => Math.max(0, Math.min(worker.freeSlots, mostInHand) - inbound.size),
    take: inbound.take,
    turn: () => new Promise((resolve) => setImmediate(resolve)),
    failed: ({ message }) => bus.emit('dependency:failed', { ...receiving, reason: message }),
    answered: () => bus.emit('dependency:worked', receiving),
    random: Math.random,
    pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
  })
  const unsubscribe = worker.onFreeSlots(() => consumer.freed?.())
  const consumed = consumer.run(stopping.signal)
  return async () => {
    stopping.abort()
    await consumed
    await inbound.empty()
    unsubscribe()
  }
}

async function identify(
  { session }: Decoded & { kind: 'call' },
  { identity, kind }: BrokerSource,
  options: ConsumeOptions,
): Promise<Identity> {
  if (session !== undefined) return options.session(session)
  if (identity !== undefined) return identity
  const text = `Messages without a session are refused from ${kind}; set ${kind}.identity to the identity of their senders.`
  throw new ToolError('UNAUTHENTICATED', text)
}
