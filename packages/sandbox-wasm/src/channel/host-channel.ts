import { performance } from 'node:perf_hooks'
import { MessageChannel } from 'node:worker_threads'
import { ToolError } from '@gantry/contract'
import type { ProgramGateway, ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import { createMailbox, createReader, createWriter, type Mailbox, read, written } from './mailbox.ts'
import { type ChannelStart, readRequests } from './messages.ts'
import { createSpinPolicy } from './spin-policy.ts'

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
  /** What the thread is started with; its port goes over to it. */
  readonly start: ChannelStart
  /** Sends a response. */
  tell(answer: string): void
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
  /** How many requests it has made, and responses were sent to it. */
  asked: number
  given: number
  /** How many of those it had read when it last rested. */
  told: number
  /** Requests of a rest that did not count, because a response was on its way. */
  held: ProgramRequest[]
  /** What they take, each counted with something for itself. */
  heldBytes: number
}

/** How long the mailbox is polled after a response. */
const lookMs = 0.2
/** Most requests and rests handled in one turn of the event loop, so that a flood does not block it. */
const mostAtOnce = 256
/** Most bytes of held requests. */
const mostHeldBytes = 64 * 2 ** 20
const questionBytes = 256

export function createHostChannel(running: () => RunningProgram | undefined): HostChannel {
  const { port1: ours, port2: port } = new MessageChannel()
  const watched = new Int32Array(new SharedArrayBuffer(4))
  const late = new Int32Array(new SharedArrayBuffer(4))
  const start: ChannelStart = { questions: createMailbox(), answers: createMailbox(), port, watched, late }
  const send = createWriter(start.answers, ours)
  const receive = createReader(start.questions, ours)
  const unread = createUnread(start.answers)
  /** What found no place, in its order. */
  let waiting: string[] = []
  /** How many at its beginning were put in since. */
  let sent = 0
  let watching = false
  /** Whether anything was asked since it was looked for. */
  let isAsked = false
  let answered = 0
  const spinPolicy = createSpinPolicy()
  ours.unref()

  /**
   * Puts in what there is place for. The thread must know that more waits before we look for the last time: either we see
   * the place that it made until then, or it sees that more waits before it sleeps, and wakes us.
   */
  const putWaiting = (): void => {
    Atomics.store(late, 0, 1)
    for (let answer = waiting[sent]; answer !== undefined && send(answer); answer = waiting[sent]) sent += 1
    if (sent === waiting.length) Atomics.store(late, 0, 0)
    // Not at each of many, because what is left is moved.
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
  /** A program that rests after reading every response makes no request before the next one. */
  const isQuiet = (): boolean => {
    const asking = running()
    return asking === undefined || asking.told === asking.given
  }
  /** Polls once in each turn of the event loop, so that nothing else is delayed. */
  const watch = (): void => {
    // Asked before anything is handed on, because what that leads to has not happened by then.
    const looks = !isQuiet() && performance.now() - answered < lookMs
    collect()
    if (looks) return void setImmediate(watch)
    spinPolicy.record(isAsked)
    watching = false
    Atomics.store(watched, 0, 0)
    // What came before the thread could see that it must wake us.
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
    tell(answer) {
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
 * A program that has not read every response rests again after it has; its requests wait until then. Returns the number
 * of requests read.
 */
function handOn(said: string, asking: RunningProgram, gateway: ProgramGateway): number {
  const { told, questions } = readRequests(said, asking.asked)
  asking.asked += questions.length
  asking.told = told
  // Added to, not copied: a program rests once for each answer that is on its way to it.
  for (const question of questions) asking.held.push(question)
  const all = asking.held
  const isHeld = told < asking.given
  if (!isHeld) asking.held = []
  asking.heldBytes = isHeld ? asking.heldBytes + said.length + questions.length * questionBytes : 0
  if (asking.heldBytes > mostHeldBytes) asking.fail(tooMuch('questions while answers are on their way to it'))
  else if (told === asking.given) gateway.ask(all, asking.answer)
  return questions.length
}

function tooMuch(what: string): ToolError {
  const message = `The program was ended, because it has too many or too large ${what}; await some before asking for more.`
  return new ToolError('LIMIT_EXCEEDED', message, { details: { limit: 'waitingBytes' } })
}

/** How much text of answers a run may leave unread: a thread takes them as they come, unless its program keeps it busy. */
const mostUnread = 64 * 2 ** 20

/** The sizes of the answers of a run that its thread may not have read yet. */
interface Unread {
  /** Notes an answer; false when there is too much now. `waiting` are those that are not in the mailbox yet. */
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
      // Only now is it worth to look what was read.
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
