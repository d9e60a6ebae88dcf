import { createConnection, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'

/** The port at which the guest listens; `native/src/guest-system.c` has it too. */
export const guestPort = 1_024
/** `OK` and the number of a port. */
const longestAnswer = 32
const pollMs = 5

/**
 * Connects to a port of a guest through the socket that Firecracker keeps for its device. Firecracker ends the connection
 * while the guest does not listen, so this tries until it does. Resolves with a socket that is paused.
 * - Cancellation: `signal` ends the attempt.
 * - Errors: SANDBOX_INIT_FAILED for an answer that is none of the protocol.
 */
export async function connectVsock(path: string, port: number, signal: AbortSignal): Promise<Socket> {
  for (;;) {
    signal.throwIfAborted()
    const socket = await tryConnect(path, port, signal)
    if (socket !== undefined) return socket
    await pause(pollMs, undefined, { signal })
  }
}

/** Resolves with nothing when the connection ends unanswered. */
async function tryConnect(path: string, port: number, signal: AbortSignal): Promise<Socket | undefined> {
  const settled = Promise.withResolvers<Socket | undefined>()
  const socket = createConnection(path)
  let answer = Buffer.alloc(0)
  const take = (piece: Buffer): void => {
    answer = Buffer.concat([answer, piece])
    const end = answer.indexOf('\n')
    if (end < 0 && answer.length <= longestAnswer) return
    if (!/^OK \d{1,10}$/.test(answer.toString('latin1', 0, Math.max(0, end)))) {
      socket.destroy()
      settled.reject(new ToolError('SANDBOX_INIT_FAILED', 'The socket of the guest gave an invalid answer.'))
      return
    }
    socket.pause()
    socket.off('data', take)
    const rest = answer.subarray(end + 1)
    if (rest.length > 0) socket.unshift(rest)
    settled.resolve(socket)
  }
  const leave = onAbort(signal, () => {
    settled.reject(signal.reason)
    socket.destroy()
  })
  socket.on('error', () => undefined)
  socket.once('close', () => settled.resolve(undefined))
  socket.on('data', take)
  socket.write(`CONNECT ${port}\n`)
  try {
    return await settled.promise
  } finally {
    leave()
  }
}
