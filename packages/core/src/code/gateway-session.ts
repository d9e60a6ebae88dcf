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
import type { StepSlots } from '../chain/context.ts'
import type { ProgramGateway, ProgramRequest, ProgramResponse } from '../runtimes/runtime.ts'
import { type GatewayRequest, readGatewayRequest } from './gateway-request.ts'

/** The parts of the program's call that a session needs. */
interface GatewaySessionParts {
  readonly journal: ProgramJournal | undefined
  /** Aborted when the program ends. */
  readonly signal: AbortSignal
  readonly slots: StepSlots
  /** Counts a request against the budgets. Throws LIMIT_EXCEEDED, which ends the program. */
  admit(parsed: GatewayRequest): void
  /** Performs a request. A rejection ends the program. */
  perform(number: number, parsed: GatewayRequest, names: InnerNames | undefined): Promise<InnerOutcome>
  /** Called for an outcome that is not performed in this attempt; `recalled` when an earlier attempt performed it. */
  undone(number: number, parsed: GatewayRequest, outcome: InnerOutcome, recalled: boolean): void
  /** Ends the program with an error that it cannot catch. */
  stop(error: unknown): void
}

/** The host's side of a program's gateway. */
export interface GatewaySession {
  readonly gateway: ProgramGateway
  /** Called when the program has ended. Returns the divergence when the program did not request its whole journal. */
  end(): ToolError | undefined
}

/** All requests that the program made before it became quiescent. */
interface RequestBatch {
  readonly requests: readonly ProgramRequest[]
  readonly answer: (answer: ProgramResponse) => void
  /** How many responses the program had been given by then. */
  readonly given: number
  /** Whether a part of the program may still continue. */
  readonly goesOn: boolean
}

interface PendingRequest {
  readonly request: ProgramRequest
  readonly parsed: GatewayRequest
  readonly fingerprint: string
}

/**
 * Answers the gateway requests of a program, with its journal when it has one.
 *
 * States: replaying, live, diverged. A session with an empty journal starts live, any other replaying.
 * - replaying → replaying: the program is quiescent and has requested the next journaled outcome, which it is given.
 *   Requests that the journal does not have wait.
 * - replaying → live: the program is quiescent and has been given the whole journal. Waiting requests are performed.
 * - live → live: a request is performed, and its outcome is given when the journal has it.
 * - replaying → diverged: a request has another fingerprint than the journal, or the program is quiescent or ends without
 *   having requested the next journaled outcome. The program is ended, and nothing is performed for it.
 *
 * While replaying the program is given one response each time that it is quiescent. It can observe the order of its
 * responses, which is the journal's, and the clock that comes with each; it cannot observe how many come at a time. One at
 * a time keeps what is in flight as small as it was live, and every request that precedes the next response is known
 * before that is given.
 *
 * A program may end before it is given its whole journal, because requests that it did not await are settled until the
 * host knows of its end; it has diverged only when it did not make those requests.
 */
export function createGatewaySession(parts: GatewaySessionParts): GatewaySession {
  const { journal } = parts
  const journaled = journal?.outcomes ?? []
  const numbers = new Map(journaled.map((entry) => [entry.number, entry]))
  /** Requests without a response that the journal has. */
  const known = new Map<number, PendingRequest>()
  const batches: RequestBatch[] = []
  const pace = createPace(parts.signal)
  let fresh: PendingRequest[] = []
  let next = 0
  let working = false
  let given = 0

  /** Gives the next journaled outcome; false when the program has not requested it. */
  const recall = (entry: JournaledOutcome, answer: (answer: ProgramResponse) => void): boolean => {
    const waiting = known.get(entry.number)
    if (waiting === undefined) return false
    known.delete(entry.number)
    next += 1
    parts.undone(entry.number, waiting.parsed, entry.outcome, true)
    given += 1
    answer(answerOf(entry.number, entry.outcome, entry.atMs))
    return true
  }
  const begin = (waiting: PendingRequest, answer: (answer: ProgramResponse) => void): void => {
    const { request, parsed } = waiting
    const settled = journal === undefined ? undefined : askOf(waiting, parts.signal)
    const work = async (): Promise<void> => {
      let made = false
      const make = (names?: InnerNames): Promise<InnerOutcome> => {
        made = true
        return parts.perform(request.number, parsed, names)
      }
      const { outcome, atMs } =
        journal === undefined || settled === undefined
          ? { outcome: await make(), atMs: undefined }
          : await journal.settle(settled, make)
      if (!made) parts.undone(request.number, parsed, outcome, false)
      given += 1
      answer(answerOf(request.number, outcome, atMs))
    }
    const doing = parsed.kind === 'call' || parsed.kind === 'chain' ? parts.slots.use(work) : work()
    doing.catch((error: unknown) => parts.stop(error))
  }
  const take = (request: ProgramRequest): void => {
    const parsed = readGatewayRequest(request)
    parts.admit(parsed)
    const fingerprint = journal === undefined ? '' : fingerprintOf(request)
    const before = numbers.get(request.number)
    if (before !== undefined && before.fingerprint !== fingerprint) throw diverged(before, request, fingerprint)
    const waiting = { request, parsed, fingerprint }
    if (before === undefined) fresh.push(waiting)
    else known.set(request.number, waiting)
  }
  const handle = async ({ requests, answer, given: givenThen }: RequestBatch): Promise<void> => {
    for (const request of requests) {
      take(request)
      const turn = pace(request.text)
      if (turn !== undefined) await turn
    }
    // The program received a journaled outcome since, so it will be quiescent again.
    if (givenThen < next) return
    const entry = journaled[next]
    if (entry !== undefined) {
      if (recall(entry, answer)) return
      // The program is quiescent after its last response, and has not requested the next journaled outcome.
      throw missingRequest(entry)
    }
    const ready = fresh
    fresh = []
    for (const waiting of ready) {
      begin(waiting, answer)
      const turn = pace(waiting.request.text)
      if (turn !== undefined) await turn
    }
  }
  /** Handles batches in order, because a large one takes more than one turn of the event loop. */
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
      ask(requests, answer, goesOn = false) {
        batches.push({ requests, answer, given, goesOn })
        if (!working) void work()
      },
    },
    end() {
      for (const entry of journaled.slice(next)) {
        const waiting = known.get(entry.number)
        if (waiting === undefined) return missingRequest(entry)
        parts.undone(entry.number, waiting.parsed, entry.outcome, true)
      }
      return undefined
    },
  }
}

function askOf({ request, parsed, fingerprint }: PendingRequest, signal: AbortSignal): InnerRequest {
  const common = { number: request.number, fingerprint, signal }
  if (parsed.kind === 'call') return { ...common, kind: 'call', tool: parsed.tool, args: parsed.args }
  if (parsed.kind === 'chain') {
    const { steps = null, input = null } = parsed
    return { ...common, kind: 'chain', args: { steps, input } }
  }
  if (parsed.kind === 'sleep') return { ...common, kind: 'sleep', sleepMs: parsed.ms }
  return { ...common, kind: 'read' }
}

/** The fingerprint is of the text itself, because the same program writes the same text. */
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
  const message = `Request ${number} of the program differs from its journal; a program may depend only on the responses to its requests.`
  return new ToolError('CODE_DIVERGED', message, {
    details: {
      number,
      expected: { fingerprint: before.fingerprint, ...toolOf(before) },
      actual: { fingerprint, kind, text: text.slice(0, 1_000) },
    },
  })
}

function missingRequest(missing: JournaledOutcome): ToolError {
  const message = `The program did not make request ${missing.number}, which its journal has.`
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

/** Limits per turn of the event loop: the number of requests, and the text that counts as one more. */
const mostAtOnce = 256
const textOfOne = 4_096

/** Counts a handled request; gives a promise to await when the event loop should run before the next. */
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
