import { setTimeout as sleep } from 'node:timers/promises'
import { type Identity, ToolError } from '@gantry/contract'
import { type Decoded, pickCodec } from './codecs/codec.ts'
import { createConsumer } from './consumer.ts'
import { createInbound, type InboundPorts } from './inbound.ts'
import type { BrokerSource } from './open-brokers.ts'

/** How many more calls the worker of this process takes. */
export interface WorkerSlots {
  readonly room: number
  /** Calls the listener whenever slots may have become free; answers the function that ends this. */
  onRoom(listener: () => void): () => void
}

export interface ConsumeOptions extends Pick<InboundPorts, 'submit' | 'attach' | 'refuse' | 'bus'> {
  readonly sources: readonly BrokerSource[]
  readonly worker: WorkerSlots
  /** Who is behind a session; rejects with UNAUTHENTICATED. */
  readonly session: (session: string) => Promise<Identity>
  readonly understand: InboundPorts['understand']
}

/** Takes messages, as many as the worker has room for. */
export interface RunningConsumers {
  /** Takes no more, and resolves when those in hand are settled or handed back. */
  stop(): Promise<void>
}

/** Messages in hand at a time; each is a call that the worker has room for, or a refusal. */
const mostInHand = 1_000

export function consumeBrokers(options: ConsumeOptions): RunningConsumers {
  const open = options.sources.map((door) => openDoor(door, options))
  return {
    async stop() {
      await Promise.all(open.map((end) => end()))
    },
  }
}

function openDoor(door: BrokerSource, options: ConsumeOptions): () => Promise<void> {
  const { transport, codecs, kind } = door
  const { worker, bus } = options
  const stopping = new AbortController()
  const receiving = { dependency: kind, operation: 'receive' }
  const inbound = createInbound({
    transport,
    codecOf: (message) => pickCodec(codecs, message),
    identify: (decoded) => identify(decoded, door, options),
    understand: options.understand,
    submit: options.submit,
    attach: options.attach,
    // What no codec reads is written to the dead letters of the broker in the words of the first.
    refuse: (refusal) => options.refuse({ ...refusal, codec: refusal.codec ?? codecs[0] }),
    // What became no call here makes no room at the worker.
    left: () => consumer.freed(),
    bus,
  })
  const consumer = createConsumer({
    transport,
    room: () => Math.max(0, Math.min(worker.room, mostInHand) - inbound.size),
    take: inbound.take,
    turn: () => new Promise((resolve) => setImmediate(resolve)),
    failed: ({ message }) => bus.emit('dependency:failed', { ...receiving, reason: message }),
    answered: () => bus.emit('dependency:worked', receiving),
    random: Math.random,
    pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
  })
  const unhear = worker.onRoom(consumer.freed)
  const consumed = consumer.run(stopping.signal)
  return async () => {
    stopping.abort()
    await consumed
    await inbound.empty()
    unhear()
  }
}

async function identify(
  { session }: Decoded & { kind: 'call' },
  { identity, kind }: BrokerSource,
  options: ConsumeOptions,
): Promise<Identity> {
  if (session !== undefined) return options.session(session)
  if (identity !== undefined) return identity
  const text = `Messages without a session are not taken from ${kind}; the setting ${kind}.identity says whose they are.`
  throw new ToolError('UNAUTHENTICATED', text)
}
