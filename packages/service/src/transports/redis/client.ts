import type { ToolError } from '@gantry/contract'
import type { Redis } from 'ioredis'
import { redisError } from './errors.ts'
import type { Command, Reply } from './reply.ts'

/** One command at a time. */
export interface WaitingConnection {
  call(command: Command): Promise<Reply>
  close(): Promise<void>
}

export async function call(client: Redis, [name, ...args]: Command): Promise<Reply> {
  try {
    return (await client.callBuffer(name, args)) as Reply
  } catch (error) {
    throw redisError(error)
  }
}

/** One round trip; each answer or failure in its place. */
export async function pipeline(client: Redis, commands: readonly Command[]): Promise<readonly (Reply | ToolError)[]> {
  const together = client.pipeline()
  for (const [name, ...args] of commands) together.callBuffer(name, args)
  const answers = (await together.exec()) ?? []
  return answers.map(([error, reply]) => (error ? redisError(error) : (reply as Reply)))
}

/** The connection is made with the first command. */
export function waitingConnection(client: Redis): WaitingConnection {
  client.on('error', () => {})
  return {
    async call(command) {
      if (client.status === 'wait') {
        await client.connect().catch((error: unknown) => {
          throw redisError(error)
        })
      }
      return call(client, command)
    },
    close: () => end(client),
  }
}

/** Ends a connection at once; what was sent and not answered fails. */
export async function end(client: Redis): Promise<void> {
  // One that waits to be made again has nothing that could end; it only stops waiting.
  const isOpen = client.status !== 'end' && client.status !== 'reconnecting'
  const ended = new Promise<void>((resolve) => client.once('end', () => resolve()))
  client.disconnect()
  if (isOpen) await ended
}
