import type { SandboxLimits } from '@gantry/contract'
import { mostLineBytes } from '@gantry/sandbox/internal/launcher/message-lines'
import { floodBytes } from '../guest/limits.ts'
import type { Stream } from '../guest/streams.ts'
import type { Piece, ThreadMessage } from './messages.ts'

/** Where a program's output leaves the thread: in larger pieces, not beyond the limits, and not too late to be seen. */
export interface Outlet {
  write(stream: Stream, bytes: Uint8Array): void
  /** Sends what waits if it waited for long enough; called wherever the program can be interrupted. */
  tick(now: number): void
  flush(): void
  /** What waits, for the caller to send. */
  rest(): readonly Piece[]
  readonly totals: { readonly [Name in Stream]: number }
  /** The stream that was flooded. */
  readonly flooded: Exclude<Stream, 'channel'> | undefined
}

const pieceBytes = 65_536
const delayMs = 20

export function createOutlet(
  limits: Pick<SandboxLimits, 'stdoutBytes' | 'stderrBytes'>,
  post: (message: ThreadMessage) => void,
  now: () => number,
): Outlet {
  const most = { stdout: limits.stdoutBytes, stderr: limits.stderrBytes, channel: mostLineBytes }
  const totals = { stdout: 0, stderr: 0, channel: 0 }
  let flooded: Outlet['flooded']
  let last = now()
  let waiting: Piece[] = []
  let waitingBytes = 0

  const rest = (): readonly Piece[] => {
    const pieces = joined(waiting)
    waiting = []
    waitingBytes = 0
    return pieces
  }
  const flush = (): void => {
    last = now()
    if (waitingBytes > 0) post({ kind: 'output', pieces: rest() })
  }
  const tick = (time: number): void => {
    if (waitingBytes > 0 && time - last >= delayMs) flush()
  }
  return {
    write(stream, bytes) {
      const kept = bytes.subarray(0, Math.max(0, most[stream] - totals[stream]))
      totals[stream] += bytes.length
      if (stream !== 'channel' && totals[stream] >= floodBytes(most[stream])) flooded ??= stream
      if (kept.length === 0) return
      // The caller's memory may be another's by the time that this is sent.
      waiting.push({ stream, bytes: kept.slice() })
      waitingBytes += kept.length
      if (waitingBytes >= pieceBytes) flush()
      else tick(now())
    },
    tick,
    flush,
    rest,
    totals,
    get flooded() {
      return flooded
    },
  }
}

/** Neighbours of the same stream become one piece; the order stays. */
function joined(pieces: readonly Piece[]): Piece[] {
  const groups: { stream: Stream; parts: Uint8Array[] }[] = []
  for (const { stream, bytes } of pieces) {
    const group = groups.at(-1)
    if (group?.stream === stream) group.parts.push(bytes)
    else groups.push({ stream, parts: [bytes] })
  }
  // A copy of its own: what lies in a shared pool cannot be sent without the rest of the pool.
  return groups.map(({ stream, parts }) => ({ stream, bytes: new Uint8Array(Buffer.concat(parts)) }))
}
