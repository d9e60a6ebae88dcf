import { Duplex } from 'node:stream'

/** Bytes before each piece: the stream's number, three zeros, and the length. */
const headBytes = 8
/** What is kept of stderr: the reason why an init did not start is its last line. */
const mostStderr = 4_096

/** The init's channel over an attached connection, whose output the engine has multiplexed. */
export interface AttachedStream {
  /** Stdin and stdout of the container. */
  readonly channel: Duplex
  stderr(): string
}

/**
 * Takes the streams of a container apart. A piece of stdout is passed on as it comes, without waiting for its end.
 * Anything that is not a piece destroys the channel, because the position in the stream is lost.
 */
export function attachedStream(connection: Duplex): AttachedStream {
  let head = Buffer.alloc(0)
  let stream = 0
  let left = 0
  let stderr = ''

  const take = (chunk: Buffer): void => {
    let at = 0
    while (at < chunk.length) {
      if (left === 0) {
        const more = chunk.subarray(at, at + headBytes - head.length)
        at += more.length
        head = Buffer.concat([head, more])
        if (head.length < headBytes) return
        stream = head[0] ?? 0
        left = head.readUInt32BE(4)
        head = Buffer.alloc(0)
        if (stream !== 1 && stream !== 2) {
          channel.destroy(new Error('The engine sent a piece of an unknown stream.'))
          return
        }
        continue
      }
      const piece = chunk.subarray(at, at + left)
      at += piece.length
      left -= piece.length
      if (stream === 2) stderr = (stderr + piece.toString('latin1')).slice(-mostStderr)
      else if (!channel.push(piece)) connection.pause()
    }
  }
  const channel = new Duplex({
    read: () => void connection.resume(),
    write: (chunk, _, done) => void connection.write(chunk, done),
    final: (done) => void connection.end(done),
    destroy: (error, done) => {
      connection.destroy()
      done(error)
    },
  })
  connection.on('data', take)
  connection.on('end', () => channel.push(null))
  connection.on('error', () => undefined)
  connection.on('close', () => channel.destroy())
  channel.on('error', () => undefined)
  return { channel, stderr: () => stderr.trim() }
}
