import { performance } from 'node:perf_hooks'
import { MessageChannel } from 'node:worker_threads'
import { ToolError } from '@gantry/contract'
import type { ProgramGateway, ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import { createMailbox, createReader, createSpinPolicy, createWriter, type Mailbox, read, written } from './mailbox.ts'
import { type ChannelStart, readRequests } from './messages.ts'

// The global of this name is a getter, and the time is read in every turn of the event loop.

/**
 * ## Host channel
 *
 * The owner's end of the gateway requests and responses of a thread. States: `sleeping`, `polling`.
 *
 * | from       | to         | cause                                                                         |
 * | ---------- | ---------- | ----------------------------------------------------------------------------- |
 * | `sleeping` | `polling`  | a response was sent, and the spin policy expects a request soon                |
 * | `polling`  | `sleeping` | 0.2 ms without a response sent, or the program has read all and rests          |
 *
 * While it sleeps, a message of the thread wakes it; while it polls, it reads the mailbox in every turn of the event loop.
 */
interface HostChannel {
  /** The start message of the thread; its port is transferred. */
  readonly start: ChannelStart
  /** Sends a response. */
  deliver(answer: string): void
  /** Passes requests to the gateway, and delivers queued responses while the mailbox has space. */
  collect(): void
  /** Drops what is left of an ended run, so that it does not reach the next one. */
  forget(): void
  close(): void
}

/** The gateway requests of the program that runs. */
export interface RunningProgram {
  readonly gateway: ProgramGateway | undefined
  readonly answer: (answer: ProgramResponse) => void
  /** Ends it with an error that it cannot catch. */
  readonly fail: (error: ToolError) => void
  /** Number of requests it has made, and of responses sent to it. */
  asked: number
  given: number
  /** Number of responses it had read at its last quiescence. */
  delivered: number
  /** Requests of a quiescence that did not count, because a response was in flight. */
  held: ProgramRequest[]
  /** Size of the held requests, each with an overhead. */
  heldBytes: number
}

/** Polling time of the mailbox after a response. */
const lookMs = 0.2
/** Most requests and reports handled in one turn of the event loop, so that a flood does not block it. */
const mostAtOnce = 256
/** Most bytes of held requests. */
const mostHeldBytes = 64 * 2 ** 20
const requestBytes = 256

export function createHostChannel(running: () => RunningProgram | undefined): HostChannel {
  const { port1: ours, port2: port } = new MessageChannel()
  const watched = new Int32Array(new SharedArrayBuffer(4))
  const late = new Int32Array(new SharedArrayBuffer(4))
  const start: ChannelStart = { requests: createMailbox(), answers: createMailbox(), port, watched, late }
  const send = createWriter(start.answers, ours)
  const receive = createReader(start.requests, ours)
  const unread = createUnread(start.answers)
  /** Responses that did not fit into the mailbox, in order. */
  let waiting: string[] = []
  /** How many of them were written since. */
  let sent = 0
  let watching = false
  /** Whether a request was announced since the last read. */
  let isAsked = false
  let answered = 0
  const spinPolicy = createSpinPolicy()
  ours.unref()

  /**
   * Writes what fits. The thread must know that more is waiting before the owner reads the counts for the last time:
   * either the owner sees the freed space, or the thread sees the flag before it sleeps, and wakes the owner.
   */
  const putWaiting = (): void => {
    Atomics.store(late, 0, 1)
    for (let answer = waiting[sent]; answer !== undefined && send(answer); answer = waiting[sent]) sent += 1
    if (sent === waiting.length) Atomics.store(late, 0, 0)
    // In batches, because the remainder is moved.
    if (sent * 2 < waiting.length) return
    waiting.splice(0, sent)
    sent = 0
  }
  const put = (answer: string): void => {
    if (waiting.length === 0 && send(answer)) return
    waiting.push(answer)
    if (waiting.length === 1) putWaiting()
  }
  const collect = (): void => {
    if (waiting.length > 0) putWaiting()
    for (let left = mostAtOnce; left > 0; ) {
      const said = receive()
      if (said === undefined) return
      isAsked = true
      const asking = running()
      left -= 1
      if (asking?.gateway !== undefined) left -= handOn(said, asking, asking.gateway)
    }
    setImmediate(collect)
  }
  /** A quiescent program that has read every response makes no request before the next one. */
  const isQuiet = (): boolean => {
    const asking = running()
    return asking === undefined || asking.delivered === asking.given
  }
  /** Polls once per turn of the event loop, so that nothing else is delayed. */
  const watch = (): void => {
    // Read before anything is delivered, because delivery may change it.
    const looks = !isQuiet() && performance.now() - answered < lookMs
    collect()
    if (looks) return void setImmediate(watch)
    spinPolicy.record(isAsked)
    watching = false
    Atomics.store(watched, 0, 0)
    // Requests that arrived before the thread saw that it must wake the owner.
    collect()
  }
  return {
    start,
    collect,
    forget() {
      waiting = []
      sent = 0
      unread.clear()
      Atomics.store(late, 0, 0)
      while (receive() !== undefined);
    },
    deliver(answer) {
      put(answer)
      if (!unread.add(answer, waiting.length - sent)) running()?.fail(tooMuch('answers that it does not take'))
      answered = performance.now()
      if (watching || !spinPolicy.shouldSpin()) return
      watching = true
      isAsked = false
      Atomics.store(watched, 0, 1)
      setImmediate(watch)
    },
    close: () => ours.close(),
  }
}

/**
 * A program that has not read every response becomes quiescent again after reading it; its requests wait until then.
 * Returns the number of requests read.
 */
function handOn(said: string, asking: RunningProgram, gateway: ProgramGateway): number {
  const { delivered, requests } = readRequests(said, asking.asked)
  asking.asked += requests.length
  asking.delivered = delivered
  // Appended, not copied: a program becomes quiescent once for each response in flight.
  for (const request of requests) asking.held.push(request)
  const all = asking.held
  const isHeld = delivered < asking.given
  if (!isHeld) asking.held = []
  asking.heldBytes = isHeld ? asking.heldBytes + said.length + requests.length * requestBytes : 0
  if (asking.heldBytes > mostHeldBytes) asking.fail(tooMuch('requests while responses are on their way to it'))
  else if (delivered === asking.given) gateway.ask(all, asking.answer)
  return requests.length
}

function tooMuch(what: string): ToolError {
  const message = `The program was stopped: too many or too large ${what}; await some before sending more.`
  return new ToolError('LIMIT_EXCEEDED', message, { details: { limit: 'waitingBytes' } })
}

/** Most characters of unread responses: a thread reads them at once unless its program keeps it busy. */
const mostUnread = 64 * 2 ** 20

/** The sizes of the responses that the thread may not have read yet. */
interface Unread {
  /** Records a response; false when too much is unread. `waiting` counts those that are not in the mailbox yet. */
  add(answer: string, waiting: number): boolean
  clear(): void
}

function createUnread({ counts }: Mailbox): Unread {
  let sizes: number[] = []
  let total = 0
  return {
    add(answer, waiting) {
      sizes.push(answer.length)
      total += answer.length
      // The read count is loaded only when the sum seems too large.
      if (total <= mostUnread) return true
      const unread = waiting + ((Atomics.load(counts, written) - Atomics.load(counts, read)) | 0)
      sizes = unread === 0 ? [] : sizes.slice(-unread)
      total = sizes.reduce((sum, size) => sum + size, 0)
      return total <= mostUnread
    },
    clear() {
      sizes = []
      total = 0
    },
  }
}
