import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type ErrorInfo, ToolError } from '@gantry/contract'
import type {
  EffectSink,
  Executor,
  InnerNames,
  InnerOutcome,
  InnerRequest,
  InnerStep,
  ProgramJournal,
} from '@gantry/core'
import { isPending } from '../../storage/calls/call-facts.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { createInnerCalls, createRunning, sooner } from './inner-calls.ts'
import { type InnerCharges, isProgramTool } from './inner-charges.ts'
import {
  createOrderedWriter,
  createOutcomeSequencer,
  type JournaledOutcome,
  type OrderedWriter,
} from './ordered-writer.ts'
import { entryOf, type Made, makeCall, readEntries, readTime, seedOf, startOf, wakeOf } from './program-calls.ts'

export interface ProgramPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  readonly signal: AbortSignal
  /** Charges the calls to the limits of the program's caller. */
  readonly charges: InnerCharges
  /** Stores the effects of the inner call of a journal entry, or of the program itself. */
  readonly effectSink?: (entry?: string) => EffectSink
  readonly now?: () => number
  readonly sleeps?: SleepTimes
}

/** One attempt at a program. */
export interface ProgramAttempt {
  readonly journal: ProgramJournal
  /** Why this attempt has no outcome; undefined while it may have one. */
  readonly failure: unknown
  /** Of the calls that require approval, or that may not begin yet, the error of the one that can continue first. */
  readonly waits: ErrorInfo | undefined
  /** When the program is to be resumed, because it only sleeps. */
  readonly wakeMs: number | undefined
  /** Resolves when all entries of the attempt are durable, or cannot be. */
  end(): Promise<void>
}

type Make = (names?: InnerNames) => Promise<InnerOutcome>

/**
 * The journal of one attempt at a program over tools.
 * | ## States of a request in the journal
 * - `new`: it has no entry.
 * - `begun`: an attempt was about to perform it.
 * - `done`: its outcome is recorded.
 * | ## What an attempt does
 * - `done`: the outcome is replayed, in the order of its first delivery. A program learns nothing else, so it reaches
 *   the same state again.
 * - `new`: the request is performed; if its effect may happen once only, its entry becomes `begun` durably first.
 * - `begun`, by an attempt that was lost: a `reconcilable` tool is queried, `once` is unknown to the program, and any
 *   other request is performed again under the same key.
 * - A request that was aborted with the attempt is not recorded; when it certainly did nothing, it becomes `new` again.
 * | ## Order of outcomes
 * An outcome gets its number when it arrives, and is written and delivered in the order of the numbers. It is delivered
 * when it is durable. Only the outcomes of requests without effects, reads and sleeps, may be delivered earlier: if
 * such an outcome is lost, the next attempt may get another one and diverge. So no other request begins before
 * everything that was delivered is durable; until then the program has only read.
 * | A nested chain or program journals each of its own calls, so that it is resumed in the middle, too.
 * | ## When an attempt stops
 * - A call requires approval: no other request begins, whatever the program does, and the attempt ends once the running
 *   requests have ended.
 * - A sleep is long and nothing else is in progress: no call, no outcome that is yet to be delivered, and no program,
 *   this or a nested one, that is not quiescent.
 * | While the store is unavailable the attempt waits, as long as the program may last. An outdated fence ends the
 * attempt. `known` holds the entries of the journal, and `goesOn` is called for requests without an outcome there.
 */
export function createProgramAttempt(
  ports: ProgramPorts,
  known: ReadonlyMap<string, JournalEntry>,
  goesOn: () => void = () => undefined,
): ProgramAttempt {
  const { executor, journal, claim, signal, effectSink, now = Date.now, sleeps: times = defaultSleepTimes } = ports
  const { callId, fence, call } = claim
  const running = createRunning()
  const settling = createRunning()
  /** Of the requests in progress, those that only wait: sleeps, and programs, which report their own quiescence. */
  const passive = createRunning()
  const rests = createRests()
  let failure: unknown
  let waits: ErrorInfo | undefined
  let asleep = false
  const fail = (error: unknown): void => {
    if (!signal.aborted) failure ??= error
  }
  const writer = createOrderedWriter({ journal, holder: { callId, fence }, signal }, fail)
  const sleeps = createSleeps({ writer, known, now }, times)
  // The cost of a program's calls is not spent at its admission.
  const charges: InnerCharges = { call: (asked, make) => ports.charges.call({ ...asked, paid: false }, make) }
  const chains = createInnerCalls({ ...ports, charges }, known, goesOn)
  const isIdle = (): boolean => settling.calls === passive.calls && rests.all
  const isStopping = (): boolean => waits !== undefined || asleep || failure !== undefined

  /** The outcome of a request with its own journal is not final when the attempt was stopped within it. */
  const ended = (outcome: InnerOutcome): Made | undefined => {
    failure ??= chains.failure
    if (chains.waits !== undefined) waits = sooner(waits, chains.waits)
    return isStopping() ? undefined : { outcome, early: false }
  }
  const makeChain = async (entry: string, make: Make): Promise<Made | undefined> => {
    await writer.drained()
    const named = (step: InnerStep): InnerStep => ({ ...step, stepId: `${entry}.${step.stepId}` })
    const around: InnerNames['around'] = (step, made) => chains.settle(named(step), made)
    return ended(await make({ around, recalls: (step) => chains.recalls(named(step)) }))
  }
  const sleep = async (entry: string, { sleepMs = 0, signal }: InnerRequest): Promise<Made | undefined> => {
    if (sleepMs <= times.shortMs) await running.count(delay(sleepMs, undefined, { signal }))
    else if (!(await passive.count(sleeps.sleep(entry, sleepMs, isIdle, signal)))) asleep = true
    return asleep ? undefined : { outcome: { kind: 'value', value: null }, early: true }
  }

  const journalOf = (prefix: string, id: string): ProgramJournal => {
    const { outcomes, nextSeq, begun, resumed, ...entries } = readEntries(known, prefix)
    const startedMs = entries.startedMs ?? now()
    if (entries.startedMs === undefined) writer.hold({ entry: startOf(prefix), result: String(startedMs) })
    rests.begin(prefix, outcomes.length)
    const sequencer = createOutcomeSequencer(writer, { nextSeq, lastMs: outcomes.at(-1)?.atMs ?? startedMs, now })

    const makeOne = (ask: InnerRequest, entry: string, make: Make): Promise<Made | undefined> => {
      const innerId = `${id}.${ask.number}`
      const idempotencyKey = keyOf(call.effectKey ?? callId, entry)
      const names = { callId: innerId, idempotencyKey, effectSink: effectSink?.(entry) }
      const { tool } = ask
      if (ask.kind === 'chain') return running.count(makeChain(entry, make))
      if (ask.kind === 'sleep') return sleep(wakeOf(prefix, ask), ask)
      if (tool === undefined) return running.count(make(names).then((outcome) => ({ outcome, early: true })))
      if (isProgramTool(executor.catalog, tool)) {
        const program = journalOf(`${entry}/`, innerId)
        return writer.drained().then(async () => ended(await passive.count(make({ ...names, program }))))
      }
      return running.count(makeCall({ ask, entry, tool, names }, make, { ...ports, charges, writer, known }))
    }
    /** Numbers the outcome of a request; undefined when it is not final. */
    const settled = async (
      ask: InnerRequest,
      make: Make,
    ): Promise<{ readonly delivered: Promise<JournaledOutcome> } | undefined> => {
      const entry = entryOf(prefix, ask)
      const made = await makeOne(ask, entry, make)
      rests.end(`${entry}/`)
      if (made === undefined) return undefined
      const { outcome, early, forget } = made
      if (outcome.kind === 'result' && isPending(outcome.result)) waits = sooner(waits, outcome.result.error)
      else if (!isCut(ask, outcome)) {
        rests.give(prefix)
        return { delivered: sequencer.add(entry, outcome, early) }
      }
      if (outcome.kind === 'result' && outcome.result.error?.effect === 'none') await forget?.()
      return undefined
    }
    return {
      seed: seedOf(call.effectKey ?? callId, prefix),
      startedMs,
      outcomes,
      resumed,
      onQuiescent: (count) => rests.rest(prefix, count),
      async settle(ask, make) {
        goesOn()
        const other = begun.get(ask.number)
        if (other !== undefined && other !== ask.fingerprint) throw diverged(ask, other)
        const answered = isStopping()
          ? undefined
          : await settling.count(settled(ask, make)).catch((error: unknown) => {
              if (!ask.signal.aborted) fail(error)
              throw error
            })
        if (answered !== undefined) return answered.delivered
        await running.none(ask.signal)
        throw stopped()
      },
    }
  }
  return {
    journal: journalOf('', callId),
    get failure() {
      return failure
    },
    get waits() {
      return waits
    },
    get wakeMs() {
      return asleep || waits !== undefined ? sleeps.wakeMs : undefined
    },
    async end() {
      await settling.none(never)
      await writer.drained().catch(() => undefined)
    },
  }
}

/** A request ends soon after its own signal aborts. */
const never = new AbortController().signal

/** The same in every attempt, so that the tool recognises a repeat. */
function keyOf(callId: string, entry: string): string {
  return createHash('sha256').update(`${callId}/${entry}`).digest('hex')
}

/** Whether the request was aborted with its program. */
function isCut({ signal }: InnerRequest, outcome: InnerOutcome): boolean {
  if (!signal.aborted || outcome.kind === 'value') return false
  const { code } = (outcome.kind === 'error' ? outcome.error : outcome.result.error) ?? {}
  return code === 'CANCELLED' || code === 'TIMEOUT'
}

function diverged({ number, fingerprint }: InnerRequest, begun: string): ToolError {
  const message = `Request ${number} of the program differs from the one that an earlier attempt began.`
  return new ToolError('CODE_DIVERGED', message, { details: { number, expected: begun, actual: fingerprint } })
}

/** Ends the attempt whatever errors the program catches. */
function stopped(): ToolError {
  return new ToolError('CANCELLED', 'The attempt at the program was stopped.')
}

export interface SleepTimes {
  /** A sleep up to this time is waited for, and repeated in full by a later attempt. */
  readonly shortMs: number
  /**
   * The time that a sleep keeps its worker; then, when nothing else is in progress, the call is released until it ends.
   */
  readonly holdMs: number
}

const defaultSleepTimes: SleepTimes = { shortMs: 2_000, holdMs: 500 }

/**
 * The long sleeps of a program. The end of each is recorded, so that it ends then in whichever worker the program runs.
 */
interface Sleeps {
  /** False when the program is to be released, which `idle` permits. */
  sleep(entry: string, ms: number, idle: () => boolean, signal: AbortSignal): Promise<boolean>
  /** The end of the first sleep in progress. */
  readonly wakeMs: number | undefined
}

function createSleeps(
  {
    writer,
    known,
    now,
  }: {
    readonly writer: Pick<OrderedWriter, 'add'>
    readonly known: ReadonlyMap<string, JournalEntry>
    readonly now: () => number
  },
  { holdMs }: SleepTimes,
): Sleeps {
  const underWay = new Map<string, number>()
  return {
    async sleep(entry, ms, idle, signal) {
      const kept = readTime(known, entry)
      const wakeMs = kept ?? now() + ms
      if (kept === undefined) writer.add({ entry, result: String(wakeMs) }).catch(() => undefined)
      underWay.set(entry, wakeMs)
      for (let left = wakeMs - now(); left > 0; left = wakeMs - now()) {
        await delay(Math.min(left, holdMs), undefined, { signal })
        if (wakeMs - now() > holdMs && idle()) return false
      }
      underWay.delete(entry)
      return true
    },
    get wakeMs() {
      return underWay.size === 0 ? undefined : Math.min(...underWay.values())
    },
  }
}

/** The outcomes that one program was given, and consumed. */
interface Conversation {
  given: number
  rested: number
}

/** Tracks whether each program of a call, nested ones included, waits for an outcome. */
interface Rests {
  /** A program begins that was given this number of outcomes before. It counts as busy until it reports quiescence. */
  begin(program: string, given: number): void
  /** The program is given another outcome, and counts as busy. */
  give(program: string): void
  /** The program is quiescent, having consumed this number of outcomes. */
  rest(program: string, delivered: number): void
  end(program: string): void
  readonly all: boolean
}

function createRests(): Rests {
  const programs = new Map<string, Conversation>()
  return {
    begin: (program, given) => void programs.set(program, { given, rested: -1 }),
    give(program) {
      const conversation = programs.get(program)
      if (conversation !== undefined) conversation.given += 1
    },
    rest(program, delivered) {
      const conversation = programs.get(program)
      if (conversation !== undefined) conversation.rested = delivered
    },
    end: (program) => void programs.delete(program),
    get all() {
      return [...programs.values()].every(({ given, rested }) => rested === given)
    },
  }
}
