import type { Cluster, Redis } from 'ioredis'
import { connectWithin, end } from './client.ts'
import { redisError } from './errors.ts'

export type Hear = (message: Buffer | undefined) => void

export interface Subscriber {
  subscribe(channel: string, hear: Hear): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** A connection that was cut without a word is found out by asking. */
const askEveryMs = 15_000

/**
 * Hears what is published, over a connection of its own.
 *
 * It is *off* until somebody listens. Then the connection is *made*; if that fails it is off again and the listener is
 * told. From then on the client makes it again whenever it ends: each time every channel is named again and everybody
 * hears `undefined`, because what was said in between is lost.
 */
export function createSubscriber(open: () => Redis | Cluster, connectMs: number): Subscriber {
  const channels = new Map<string, Set<Hear>>()
  let connection: Promise<Redis | Cluster> | undefined
  let asking: NodeJS.Timeout | undefined

  const tell = (channel: string, message: Buffer | undefined): void => {
    for (const hear of channels.get(channel) ?? []) hear(message)
  }
  const nameAgain = async (client: Redis | Cluster): Promise<void> => {
    const names = [...channels.keys()]
    if (names.length > 0) await client.subscribe(...names)
    for (const channel of names) tell(channel, undefined)
  }
  const make = async (): Promise<Redis | Cluster> => {
    const client = open()
    client.on('error', () => {})
    client.on('messageBuffer', (channel: Buffer, message: Buffer) => tell(channel.toString(), message))
    await connectWithin(client, connectMs).catch(async (error: unknown) => {
      connection = undefined
      await end(client)
      throw error
    })
    client.on('ready', () => void nameAgain(client).catch(() => client.disconnect(true)))
    asking = setInterval(() => void client.ping().catch(() => {}), askEveryMs).unref()
    return client
  }
  const stop = async (channel: string, hear: Hear): Promise<void> => {
    const hearers = channels.get(channel)
    if (hearers?.delete(hear) !== true || hearers.size > 0) return
    channels.delete(channel)
    await connection?.then((client) => client.unsubscribe(channel)).catch(() => {})
  }
  return {
    async subscribe(channel, hear) {
      const entry: Hear = (message) => hear(message)
      channels.set(channel, (channels.get(channel) ?? new Set()).add(entry))
      try {
        connection ??= make()
        await (await connection).subscribe(channel)
      } catch (error) {
        await stop(channel, entry)
        throw redisError(error)
      }
      return () => stop(channel, entry)
    },
    async close() {
      clearInterval(asking)
      channels.clear()
      await connection?.then(end).catch(() => {})
    },
  }
}
