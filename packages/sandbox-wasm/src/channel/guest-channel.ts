import { createReader, createWriter, read, waitForPlace, written } from './mailbox.ts'
import { type ChannelStart, readResponse, type WrittenResponse, writeRequests } from './messages.ts'
import { createSpinPolicy } from './spin-policy.ts'

export type GatewayResponse = WrittenResponse & { readonly number: number }

/** What a program over tools asks its host, from inside its thread. */
export interface GuestChannel {
  /** Takes what a program says when it can do nothing more: a letter, and a line for each question. */
  take(said: string): void
  /** An answer that is there already. */
  next(): GatewayResponse | undefined
  /** Hands over all that was taken and waits for an answer until a time of the thread's clock. */
  rest(until: number): GatewayResponse | undefined
  /** Questions that were not answered. */
  readonly open: number
  /** Those of them that a program is not over without. */
  readonly owed: number
  /** Whether nobody wants to know how it ends. */
  readonly stopped: boolean
}

/** Whether a call or a chain is asked for at a place of a text, by characters, because this is done for each question. */
const isOwed = (said: string, at: number): boolean => said[at] === 'c' && (said[at + 1] === 'a' || said[at + 1] === 'h')

/** So many characters of questions are kept while there are answers to tell; more are handed over before the next one. */
const mostTaken = 1_048_576

/** So long the thread looks for its answer before it sleeps: about as long as it takes to sleep and be woken. */
const lookMs = 0.05

/**
 * The line of one run. The thread has nothing to do but to wait, so it looks for its answer, and then sleeps on the count
 * of the answers instead of its event loop; whoever kills it wakes it. `wake` tells the owner of questions.
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
  /** Until there is another answer than those that were seen, or a time is over. */
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
        // Whatever was taken out, also what nobody waits for any more, made place for what the owner still holds.
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
