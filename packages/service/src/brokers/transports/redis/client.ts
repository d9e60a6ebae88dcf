import type { ToolError } from '@gantry/contract'
import type { Cluster, Redis } from 'ioredis'
import { redisError } from './errors.ts'
import type { Command, Reply } from './reply.ts'

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
