import { createReader, createWriter, read, waitForPlace, written } from './mailbox.ts'
import { type ChannelStart, readResponse, type WrittenResponse, writeRequests } from './messages.ts'
import { createSpinPolicy } from './spin-policy.ts'

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
  /** Takes the text of a program that cannot go on: one character for its state, and a line for each request. */
  take(said: string): void
  /** A response that has arrived already. */
  next(): GatewayResponse | undefined
  /** Hands over all requests and waits for a response until a time of the thread's clock. */
  rest(until: number): GatewayResponse | undefined
  /** Requests without a response. */
  readonly open: number
  /** Those of them that must be answered before the program may end. */
  readonly owed: number
  /** Whether the host asked the run to end. */
  readonly stopped: boolean
}

/** Whether a call or a chain is asked for at a place of a text, by characters, because this is done for each question. */
const isOwed = (said: string, at: number): boolean => said[at] === 'c' && (said[at + 1] === 'a' || said[at + 1] === 'h')

/** Most characters of requests kept while responses are delivered; more are handed over before the next response. */
const mostTaken = 1_048_576

/** How long the thread spins before it sleeps: about as long as it takes to sleep and be woken. */
const lookMs = 0.05

/**
 * The channel of one run. The thread has nothing to do but to wait, so it spins for its response, and then sleeps on the count
 * of the responses instead of its event loop; a kill wakes it. `wake` notifies the owner of requests.
 */
export function createGuestChannel(
  run: number,
  start: ChannelStart,
  wake: () => void,
  now: () => number,
): GuestChannel {
  const { counts } = start.answers
  const receive = createReader(start.answers, start.port)
  const send = createWriter(start.questions, start.port)
  /** By number, whether it is owed. */
  const open = new Map<number, boolean>()
  let [last, owed, told] = [0, 0, 0]
  let taken = ''
  let stopped = false
  const spinPolicy = createSpinPolicy()

  const post = (said: string): void => {
    while (!send(said)) waitForPlace(start.questions)
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
    post(writeRequests(told, taken))
    taken = ''
  }
  const next = (): GatewayResponse | undefined => {
    while (true) {
      const received = receive()
      if (received === undefined) return undefined
      const answer = readResponse(received)
      // What an earlier run did not wait for may still lie here.
      if (answer.run !== run) continue
      if (!isAnswer(answer)) {
        stopped = true
        return undefined
      }
      const { number } = answer
      const wasOwed = open.get(number)
      if (wasOwed === undefined) throw new Error(`The host answered question ${number}, which is not open.`)
      open.delete(number)
      told += 1
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
        // Every message taken out, stale ones included, made space for what the owner still holds.
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

/** One without a number asks the run to end. */
function isAnswer(written: WrittenResponse): written is GatewayResponse {
  return written.number !== undefined
}
