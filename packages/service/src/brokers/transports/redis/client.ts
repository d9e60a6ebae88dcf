import type { ToolError } from '@gantry/contract'
import type { Cluster, Redis } from 'ioredis'
import { type Command, type Reply, redisError } from './reply.ts'

/** One command at a time. */
export interface WaitingConnection {
  call(command: Command): Promise<Reply>
  close(): Promise<void>
}

export async function call(client: Redis | Cluster, [name, ...args]: Command): Promise<Reply> {
  try {
    return (await client.callBuffer(name, args)) as Reply
  } catch (error) {
    throw redisError(error)
  }
}

/** One round trip; each answer or failure in its place. In a cluster, one for each server that is asked. */
export async function pipeline(
  client: Redis | Cluster,
  commands: readonly Command[],
): Promise<readonly (Reply | ToolError)[]> {
  if (client.isCluster) return Promise.all(commands.map((command) => call(client, command).catch(redisError)))
  const together = client.pipeline()
  for (const [name, ...args] of commands) together.callBuffer(name, args)
  const answers = (await together.exec()) ?? []
  return answers.map(([error, reply]) => (error ? redisError(error) : (reply as Reply)))
}

/**
 * Connects, or rejects after so long, while the client goes on trying: sentinels and the servers of a cluster are asked
 * one after the other without end.
 */
export async function connectWithin(client: Redis | Cluster, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('No server answers.')), ms)
  })
  try {
    await Promise.race([client.connect(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** The connection is made with the first command. */
export function waitingConnection(client: Redis | Cluster, connectMs: number): WaitingConnection {
  client.on('error', () => {})
  return {
    async call(command) {
      if (client.status === 'wait') {
        await connectWithin(client, connectMs).catch((error: unknown) => {
          throw redisError(error)
        })
      }
      return call(client, command)
    },
    close: () => end(client),
  }
}

const longestEndMs = 1_000

/** Ends a connection at once; what was sent and not answered fails. */
export async function end(client: Redis | Cluster): Promise<void> {
  // One that waits to be made again has nothing that could end; it only stops waiting.
  const isOpen = client.status !== 'end' && client.status !== 'reconnecting'
  const ended = new Promise<void>((resolve) => {
    client.once('end', () => resolve())
    // One that is being made may say nothing of its end.
    setTimeout(resolve, longestEndMs).unref()
  })
  client.disconnect()
  if (isOpen) await ended
}

export type Hear = (message: Buffer | undefined) => void

interface Subscriber {
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
