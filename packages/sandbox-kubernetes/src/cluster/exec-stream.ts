import { Duplex } from 'node:stream'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { Exec, type KubeConfig } from '@kubernetes/client-node'

export interface ExecTarget {
  readonly namespace: string
  readonly pod: string
  readonly container: string
  readonly command: readonly string[]
}

/** A program that was started in a container, by its streams. */
export interface ExecStream {
  /** Its stdin and stdout. Ending it ends its stdin; destroying it closes the connection. */
  readonly channel: Duplex
  /** The end of what it wrote to stderr. */
  stderr(): string
  /** Resolves when it has ended, or when the connection did before it was known to have. */
  readonly ended: Promise<ExecEnd>
}

export type ExecEnd =
  | { readonly kind: 'exited'; readonly code: number; readonly message: string }
  | { readonly kind: 'lost'; readonly reason: string }

/** Numbers of the streams, the first byte of each message. */
const streams = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 }
/** What one message to the API holds. */
const pieceBytes = 32_768
const mostStderr = 4_096
/** The API closes a connection without a word when the machine of the pod is gone; pings find it out. */
const pingMs = 10_000

/** Starts a program by the API's exec, over a WebSocket. Rejects when the connection is refused. */
export async function openExec(config: KubeConfig, target: ExecTarget, signal: AbortSignal): Promise<ExecStream> {
  signal.throwIfAborted()
  const { namespace, pod, container, command } = target
  const query = new URLSearchParams({ container, stdin: 'true', stdout: 'true', stderr: 'true', tty: 'false' })
  for (const word of command) query.append('command', word)
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/exec?${query}`
  const ended = Promise.withResolvers<ExecEnd>()
  let stderr = ''
  let take = (_stream: number, _bytes: Buffer): void => undefined
  const early: [number, Buffer][] = []
  const { handler } = new Exec(config)
  const opening = handler.connect(path, null, (stream, bytes) => {
    if (socketOpened) take(stream, bytes)
    else early.push([stream, bytes])
    return true
  })
  let socketOpened = false
  const leave = onAbort(signal, () => void opening.then((socket) => socket.terminate()).catch(() => undefined))
  const socket = await opening.finally(leave)
  signal.throwIfAborted()
  let heard = true
  const ping = setInterval(() => {
    if (!heard) return socket.terminate()
    heard = false
    socket.ping()
  }, pingMs)
  ping.unref()
  socket.on('pong', () => {
    heard = true
  })
  const channel = new Duplex({
    read: () => socket.resume(),
    write(chunk: Buffer, _, done) {
      let left = Math.ceil(chunk.length / pieceBytes)
      const sent = (error?: Error | null): void => {
        left -= 1
        if (left === 0 || error) done(error)
      }
      for (let at = 0; at < chunk.length; at += pieceBytes) {
        socket.send(Buffer.concat([Buffer.of(streams.stdin), chunk.subarray(at, at + pieceBytes)]), sent)
      }
      if (chunk.length === 0) done()
    },
    final(done) {
      socket.send(Buffer.of(streams.close, streams.stdin), () => done())
    },
    destroy(error, done) {
      clearInterval(ping)
      socket.terminate()
      done(error)
    },
  })
  channel.on('error', () => undefined)
  take = (stream, bytes) => {
    heard = true
    if (stream === streams.stdout) {
      if (bytes.length > 0 && !channel.push(bytes)) socket.pause()
    } else if (stream === streams.stderr) stderr = (stderr + bytes.toString('latin1')).slice(-mostStderr)
    else if (stream === streams.status) ended.resolve(endOf(bytes))
  }
  socketOpened = true
  for (const [stream, bytes] of early.splice(0)) take(stream, bytes)
  socket.on('error', () => undefined)
  socket.on('close', () => {
    clearInterval(ping)
    ended.resolve({ kind: 'lost', reason: 'The connection to the pod was lost.' })
    channel.push(null)
    channel.destroy()
  })
  return { channel, stderr: () => stderr.trim(), ended: ended.promise }
}

interface ExecStatus {
  readonly status?: string
  readonly message?: string
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] }
}

/** The last message of the API: the exit code is among the causes of a failure. */
function endOf(bytes: Buffer): ExecEnd {
  let status: ExecStatus
  try {
    status = JSON.parse(bytes.toString())
  } catch {
    return { kind: 'lost', reason: 'The API ended the connection to the pod with an unreadable status.' }
  }
  if (status.status === 'Success') return { kind: 'exited', code: 0, message: '' }
  const { message = '' } = status
  const code = status.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message
  if (code !== undefined && /^\d+$/.test(code)) return { kind: 'exited', code: Number(code), message }
  return { kind: 'lost', reason: `The API ended the connection to the pod: ${message || 'no reason given'}` }
}
