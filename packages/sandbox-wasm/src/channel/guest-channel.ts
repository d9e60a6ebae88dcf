import type { SandboxLimits } from '@gantry/contract'
import { mostLineBytes } from '@gantry/sandbox/internal/launcher/message-lines'
import { floodBytes } from '../guest/limits.ts'
import type { Stream } from '../guest/streams.ts'
import { createReader, createSpinPolicy, createWriter, read, waitForPlace, written } from './mailbox.ts'
import {
  type ChannelStart,
  type Piece,
  readResponse,
  type ThreadMessage,
  type WrittenResponse,
  writeRequests,
} from './messages.ts'

export type GatewayResponse = WrittenResponse & { readonly number: number }

/**
 * ## Guest channel
 *
 * Gateway requests of a program, from inside its thread. States of a run: `executing`, `resting`, `stopped`.
 *
 * | from        | to          | cause                                                                   |
 * | ----------- | ----------- | ----------------------------------------------------------------------- |
 * | `executing` | `resting`   | `rest`: hands over all requests and waits                               |
 * | `resting`   | `executing` | a response arrives, or the deadline passes                              |
 * | any         | `stopped`   | the host sends a message without a number: the result is not wanted     |
 */
export interface GuestChannel {
  /** Reads the text of a quiescent program: one character for its state, and a line for each request. */
  take(said: string): void
  /** A response that has arrived already. */
  next(): GatewayResponse | undefined
  /** Sends all requests and waits for a response until a time of the thread's clock. */
  rest(until: number): GatewayResponse | undefined
  /** Requests without a response. */
  readonly open: number
  /** Requests that must have a response before the program may end. */
  readonly owed: number
  /** Whether the host asked the run to end. */
  readonly stopped: boolean
}

/** Whether a request in a text is a call or a chain; by characters, because this runs for each request. */
const isOwed = (said: string, at: number): boolean => said[at] === 'c' && (said[at + 1] === 'a' || said[at + 1] === 'h')

/** Most characters of requests kept while responses are delivered; more are sent before the next response. */
const mostTaken = 1_048_576

/** Spin time before the thread sleeps: about as long as sleeping and waking takes. */
const lookMs = 0.05

/**
 * The channel of one run. The thread has nothing to do but wait, so it spins for its response, and then sleeps on the
 * response count instead of its event loop; a kill wakes it. `wake` notifies the owner of requests.
 */
export function createGuestChannel(
  run: number,
  start: ChannelStart,
  wake: () => void,
  now: () => number,
): GuestChannel {
  const { counts } = start.answers
  const receive = createReader(start.answers, start.port)
  const send = createWriter(start.requests, start.port)
  /** By number, whether it is owed. */
  const open = new Map<number, boolean>()
  let [last, owed, delivered] = [0, 0, 0]
  let taken = ''
  let stopped = false
  const spinPolicy = createSpinPolicy()

  const post = (said: string): void => {
    while (!send(said)) waitForPlace(start.requests)
    if (Atomics.load(start.watched, 0) === 0) wake()
  }
  /** Waits for a further response, or until a time. */
  const wait = (seen: number, until: number): void => {
    if (spinPolicy.shouldSpin()) {
      const end = now() + lookMs
      while (Atomics.load(counts, written) === seen && now() < end);
      const paid = Atomics.load(counts, written) !== seen
      spinPolicy.record(paid)
      if (paid) return
    }
    const ms = until - now()
    if (ms > 0) Atomics.wait(counts, written, seen, ms)
  }
  const handOver = (): void => {
    post(writeRequests(delivered, taken))
    taken = ''
  }
  const next = (): GatewayResponse | undefined => {
    while (true) {
      const received = receive()
      if (received === undefined) return undefined
      const answer = readResponse(received)
      // Responses that an earlier run did not read may still be in the mailbox.
      if (answer.run !== run) continue
      if (!isAnswer(answer)) {
        stopped = true
        return undefined
      }
      const { number } = answer
      const wasOwed = open.get(number)
      if (wasOwed === undefined) throw new Error(`The host responded to gateway request ${number}, which is not open.`)
      open.delete(number)
      delivered += 1
      if (wasOwed) owed -= 1
      return answer
    }
  }
  return {
    take(said) {
      taken += said.slice(1)
      for (let at = said.indexOf('\n'); at >= 0; at = said.indexOf('\n', at + 1)) {
        const isCall = isOwed(said, at + 1)
        last += 1
        open.set(last, isCall)
        if (isCall) owed += 1
      }
    },
    next() {
      const isThere = Atomics.load(counts, written) !== Atomics.load(counts, read)
      if (isThere && taken.length > mostTaken) handOver()
      return isThere ? next() : undefined
    },
    rest(until) {
      handOver()
      while (true) {
        const seen = Atomics.load(counts, written)
        const answer = next()
        if (answer !== undefined || stopped || now() >= until) return answer
        // Every message read, also a stale one, freed space for responses that the owner holds.
        if (Atomics.load(start.late, 0) !== 0) wake()
        wait(seen, until)
      }
    },
    get open() {
      return open.size
    },
    get owed() {
      return owed
    },
    get stopped() {
      return stopped
    },
  }
}

/** A message without a number asks the run to end. */
function isAnswer(written: WrittenResponse): written is GatewayResponse {
  return written.number !== undefined
}

/** Sends a program's output from the thread: in larger pieces, within the limits, and with bounded delay. */
export interface Outlet {
  write(stream: Stream, bytes: Uint8Array): void
  /** Sends output that has waited long enough; called wherever the program can be interrupted. */
  tick(now: number): void
  flush(): void
  /** The unsent output, for the caller to send. */
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
      // The caller may reuse its memory before this is sent.
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

/** Joins adjacent pieces of the same stream; the order is kept. */
function joined(pieces: readonly Piece[]): Piece[] {
  const groups: { stream: Stream; parts: Uint8Array[] }[] = []
  for (const { stream, bytes } of pieces) {
    const group = groups.at(-1)
    if (group?.stream === stream) group.parts.push(bytes)
    else groups.push({ stream, parts: [bytes] })
  }
  // Copied, because a slice of a shared pool cannot be transferred without the rest of the pool.
  return groups.map(({ stream, parts }) => ({ stream, bytes: new Uint8Array(Buffer.concat(parts)) }))
}
