import { hash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { type ErrorInfo, type Json, ToolError } from '@gantry/contract'
import type {
  InnerNames,
  InnerOutcome,
  InnerRequest,
  JournaledOutcome,
  ProgramJournal,
} from '../backends/program-journal.ts'
import type { ProgramGateway, ProgramRequest, ProgramResponse } from '../runtimes/runtime.ts'
import { type GatewayRequest, readGatewayRequest } from './gateway-request.ts'

/** What a dialogue needs of the program's call. */
interface GatewaySessionParts {
  readonly journal: ProgramJournal | undefined
  /** Aborted when the program ends. */
  readonly signal: AbortSignal
  readonly slots: Slots
  /** Takes what is asked off the budgets. Throws LIMIT_EXCEEDED, which ends the program. */
  admit(asked: GatewayRequest): void
  /** Does what is asked; never rejects but for what is to end the program. */
  perform(number: number, asked: GatewayRequest, names: InnerNames | undefined): Promise<InnerOutcome>
  /** Hears what is told without having been done; whether an earlier attempt had been told of it. */
  undone(number: number, asked: GatewayRequest, outcome: InnerOutcome, recalled: boolean): void
  /** Ends the program with an error that it cannot catch. */
  stop(error: unknown): void
}

/** The host's side of a program's questions. */
export interface GatewaySession {
  readonly gateway: ProgramGateway
  /** Says that the program has ended; why it may not have at this place, when it has not asked for all of its journal. */
  end(): ToolError | undefined
}

/** All that was asked at one rest. */
interface RequestBatch {
  readonly questions: readonly ProgramRequest[]
  readonly answer: (answer: ProgramResponse) => void
  /** How many answers it had been given by then. */
  readonly given: number
  /** Whether something of the program may go on all the same. */
  readonly goesOn: boolean
}

interface PendingRequest {
  readonly question: ProgramRequest
  readonly asked: GatewayRequest
  readonly fingerprint: string
}

/**
 * Answers a program. While its journal still has something that it was told before, it *recalls*: each is told in its
 * order, to the question of its number, and what is new waits. Then, from the next rest on, it *goes on*: what is new is
 * done, and told in the order in which it is settled. A program that asks something else than before, or does not ask what
 * it was told, has diverged, and is ended before anything is done for it.
 *
 * What a program can observe is the order of its answers, what of it ran between two of them, which is always all that
 * could, and the clock that comes with each; the order is the journal's, and the rest follows from it. Whether it was given
 * one answer or many at a time it cannot observe, but what is on its way to it and back is limited, and when it was told
 * live it was so by and by. So it is given one answer at a rest, whatever the size of the journal: nothing that fitted live
 * is too much now, and every question that could be asked before the next answer is known before that is given.
 *
 * It may end before it is told all of its journal, because what it did not wait for is settled behind its back until its
 * end is known here; it has diverged only when it did not even ask for it.
 */
export function createGatewaySession(parts: GatewaySessionParts): GatewaySession {
  const { journal } = parts
  const told = journal?.outcomes ?? []
  const numbers = new Map(told.map((entry) => [entry.number, entry]))
  /** Asked and not answered, of those that the journal knows. */
  const known = new Map<number, PendingRequest>()
  const batches: RequestBatch[] = []
  const pace = createPace(parts.signal)
  let fresh: PendingRequest[] = []
  let next = 0
  let working = false
  let given = 0

  /** Tells what is next in the journal; false when the program has not asked for it. */
  const recall = (entry: JournaledOutcome, answer: (answer: ProgramResponse) => void): boolean => {
    const waiting = known.get(entry.number)
    if (waiting === undefined) return false
    known.delete(entry.number)
    next += 1
    parts.undone(entry.number, waiting.asked, entry.outcome, true)
    given += 1
    answer(answerOf(entry.number, entry.outcome, entry.atMs))
    return true
  }
  const begin = (waiting: PendingRequest, answer: (answer: ProgramResponse) => void): void => {
    const { question, asked } = waiting
    const settled = journal === undefined ? undefined : askOf(waiting, parts.signal)
    const work = async (): Promise<void> => {
      let made = false
      const make = (names?: InnerNames): Promise<InnerOutcome> => {
        made = true
        return parts.perform(question.number, asked, names)
      }
      const { outcome, atMs } =
        journal === undefined || settled === undefined
          ? { outcome: await make(), atMs: undefined }
          : await journal.settle(settled, make)
      if (!made) parts.undone(question.number, asked, outcome, false)
      given += 1
      answer(answerOf(question.number, outcome, atMs))
    }
    const doing = asked.kind === 'call' || asked.kind === 'chain' ? parts.slots.use(work) : work()
    doing.catch((error: unknown) => parts.stop(error))
  }
  const take = (question: ProgramRequest): void => {
    const asked = readGatewayRequest(question)
    parts.admit(asked)
    const fingerprint = journal === undefined ? '' : fingerprintOf(question)
    const before = numbers.get(question.number)
    if (before !== undefined && before.fingerprint !== fingerprint) throw diverged(before, question, fingerprint)
    const waiting = { question, asked, fingerprint }
    if (before === undefined) fresh.push(waiting)
    else known.set(question.number, waiting)
  }
  const handle = async ({ questions, answer, given: toldThen }: RequestBatch): Promise<void> => {
    for (const question of questions) {
      take(question)
      const turn = pace(question.text)
      if (turn !== undefined) await turn
    }
    // One that was told something again since will rest again.
    if (toldThen < next) return
    const entry = told[next]
    if (entry !== undefined) {
      if (recall(entry, answer)) return
      // It rests, was told all that was given, and does not ask for what it was told next.
      throw missingRequest(entry)
    }
    const ready = fresh
    fresh = []
    for (const waiting of ready) {
      begin(waiting, answer)
      const turn = pace(waiting.question.text)
      if (turn !== undefined) await turn
    }
  }
  /** One batch after the other, because one that is large is not handled in one turn of the event loop. */
  const work = async (): Promise<void> => {
    working = true
    try {
      for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
        await handle(batch)
        if (!batch.goesOn) journal?.onQuiescent?.(batch.given)
      }
    } catch (error) {
      batches.length = 0
      parts.stop(error)
    }
    working = false
  }
  return {
    gateway: {
      ask(questions, answer, goesOn = false) {
        batches.push({ questions, answer, given, goesOn })
        if (!working) void work()
      },
    },
    end() {
      for (const entry of told.slice(next)) {
        const waiting = known.get(entry.number)
        if (waiting === undefined) return missingRequest(entry)
        parts.undone(entry.number, waiting.asked, entry.outcome, true)
      }
      return undefined
    },
  }
}

function askOf({ question, asked, fingerprint }: PendingRequest, signal: AbortSignal): InnerRequest {
  const common = { number: question.number, fingerprint, signal }
  if (asked.kind === 'call') return { ...common, kind: 'call', tool: asked.tool }
  if (asked.kind === 'chain') return { ...common, kind: 'chain' }
  if (asked.kind === 'sleep') return { ...common, kind: 'sleep', sleepMs: asked.ms }
  return { ...common, kind: 'read' }
}

/** The same program writes the same text, so the text itself is what is compared. */
function fingerprintOf({ kind, text }: ProgramRequest): string {
  return hash('sha256', `${kind}\n${text}`).slice(0, 12)
}

function answerOf(number: number, outcome: InnerOutcome, atMs: number | undefined): ProgramResponse {
  const error = outcome.kind === 'error' ? outcome.error : outcome.kind === 'result' ? outcome.result.error : undefined
  const ok = error === undefined
  const text = ok ? JSON.stringify(outputOf(outcome)) : errorText(error)
  return atMs === undefined ? { number, ok, text } : { number, ok, text, nowMs: atMs }
}

function outputOf(outcome: InnerOutcome): Json {
  if (outcome.kind === 'value') return outcome.value
  return outcome.kind === 'result' ? outcome.result.output : null
}

function errorText({ code, message, retryable, effect, details }: ErrorInfo): string {
  return JSON.stringify({ code, message, retryable, effect, ...(details === undefined ? {} : { details }) })
}

function diverged(before: JournaledOutcome, { number, kind, text }: ProgramRequest, fingerprint: string): ToolError {
  const message = `The program asks question ${number} otherwise than before; it must not depend on anything but what it is told.`
  return new ToolError('CODE_DIVERGED', message, {
    details: {
      number,
      expected: { fingerprint: before.fingerprint, ...toolOf(before) },
      actual: { fingerprint, kind, text: text.slice(0, 1_000) },
    },
  })
}

function missingRequest(missing: JournaledOutcome): ToolError {
  const message = `The program does not ask question ${missing.number}, which it asked and was answered before.`
  return new ToolError('CODE_DIVERGED', message, {
    details: {
      number: missing.number,
      expected: { fingerprint: missing.fingerprint, ...toolOf(missing) },
      actual: null,
    },
  })
}

function toolOf({ outcome }: JournaledOutcome): { readonly tool?: string } {
  const id = outcome.kind === 'result' ? outcome.result.tool?.id : undefined
  return id === undefined ? {} : { tool: id }
}

/** What is handled in one turn of the event loop: so many questions, each counted with so much text. */
const mostAtOnce = 256
const textOfOne = 4_096

/** Counts a question that was handled; a promise to wait for when others should have their turn before the next. */
type Pace = (text: string) => Promise<void> | undefined

/** The promise rejects when the signal aborts. */
function createPace(signal: AbortSignal): Pace {
  let left = mostAtOnce
  return (text) => {
    left -= 1 + text.length / textOfOne
    if (left > 0) return undefined
    left = mostAtOnce
    return turn(undefined, { signal })
  }
}

/** Lets so many pieces of work run at a time; others wait for their turn, in their order. */
interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createSlots(most: number): Slots {
  const waiting: (() => void)[] = []
  let free = most
  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }
  return {
    async use(work) {
      if (free > 0) free -= 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
