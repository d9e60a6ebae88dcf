import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type ErrorInfo, ToolError } from '@gantry/contract'
import type {
  Executor,
  InnerNames,
  InnerOutcome,
  InnerRequest,
  InnerStep,
  ProgramJournal,
  WriteBack,
} from '@gantry/core'
import type { Claim } from '../../storage/calls/call-store.ts'
import { isPending } from '../../storage/calls/outcomes.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { createInnerCalls, createRunning, sooner } from './inner-calls.ts'
import { type InnerCharges, isProgramTool } from './inner-charges.ts'
import { createOrderedWriter, type OrderedWriter } from './ordered-writer.ts'
import { createOutcomeSequencer, type JournaledOutcome } from './outcome-sequencer.ts'
import { type Made, makeCall } from './program-calls.ts'
import { entryOf, readEntries, readTime, seedOf, startOf, wakeOf } from './program-entries.ts'

export interface ProgramPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  readonly signal: AbortSignal
  /** Makes the calls count for the limits of who asked for the program. */
  readonly charges: InnerCharges
  /** Takes what the inner call of an entry of the journal writes back, or the program itself. */
  readonly writeBack?: (entry?: string) => WriteBack
  readonly now?: () => number
  readonly sleeps?: SleepTimes
}

/** One attempt at a program. */
export interface ProgramAttempt {
  readonly journal: ProgramJournal
  /** Why this attempt has no outcome; undefined while it may have one. */
  readonly failure: unknown
  /** Of the calls that a person has yet to approve, or that may not begin yet, the error of the one that may first. */
  readonly waits: ErrorInfo | undefined
  /** When the program is to be taken up again, because all that it does is to sleep. */
  readonly wakeMs: number | undefined
  /** Resolves when everything that came of the attempt is durable, or cannot be. */
  end(): Promise<void>
}

type Make = (names?: InnerNames) => Promise<InnerOutcome>

/**
 * The journal of one attempt at a program over tools.
 *
 * What a program asks for is *new* to the journal, *begun* or *done*. What is done is told from the journal, in the order
 * in which it was told before, and because a program learns nothing else, it comes to the same place again. What is new is
 * made, and before that begun durably when its effect may happen once only. What is begun belonged to an attempt that died:
 * a tool that can tell is asked, `once` is told to the program as unknown, and the rest is made again under the same key.
 *
 * An outcome gets its number when it is there, is written in the order of the numbers, and told in that order. The program
 * hears of it when it is durable. Only of what changes nothing, reads and sleeps, it may hear before: should that be lost,
 * the program would be told something else, and could take another way. So nothing else begins before everything that was
 * told is durable; until then it can have done nothing but read.
 *
 * A chain in the program has each of its calls kept by itself, and so has a program in the program, so that both are taken
 * up in the middle, too.
 *
 * A call that a person must approve first stops the attempt whatever the program would do about it: nothing else is begun,
 * and once what runs has ended, so that none is cut short, so does the attempt. A sleep stops it when nothing else is under
 * way: no call, no outcome that is yet to be told, and no program, this one or one inside, that does not say that it rests.
 * What was cut short with the attempt is not kept; when it certainly did nothing, it is new again.
 *
 * A store that is away is waited for as long as the program may go on. A fence that is no longer the present one ends the
 * attempt. `known` is what the journal holds, and `goesOn` is told of questions that it does not answer.
 */
export function createProgramAttempt(
  ports: ProgramPorts,
  known: ReadonlyMap<string, JournalEntry>,
  goesOn: () => void = () => undefined,
): ProgramAttempt {
  const { executor, journal, claim, signal, writeBack, now = Date.now, sleeps: times = defaultSleepTimes } = ports
  const { callId, fence, call } = claim
  const running = createRunning()
  const settling = createRunning()
  /** Of what is being settled, that which only waits: sleeps, and programs, which say themselves what they do. */
  const quiet = createRunning()
  const rests = createRests()
  let failure: unknown
  let waits: ErrorInfo | undefined
  let asleep = false
  const fail = (error: unknown): void => {
    if (!signal.aborted) failure ??= error
  }
  const writer = createOrderedWriter({ journal, holder: { callId, fence }, signal }, fail)
  const sleeps = createSleeps({ writer, known, now }, times)
  // What a program asks for was not paid for when it was taken in.
  const charges: InnerCharges = { call: (asked, make) => ports.charges.call({ ...asked, paid: false }, make) }
  const chains = createInnerCalls({ ...ports, charges }, known, goesOn)
  const isIdle = (): boolean => settling.calls === quiet.calls && rests.all
  const isStopping = (): boolean => waits !== undefined || asleep || failure !== undefined

  /** What came of calls that are journaled by themselves is no end when the attempt was stopped among them. */
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
    else if (!(await quiet.count(sleeps.sleep(entry, sleepMs, isIdle, signal)))) asleep = true
    return asleep ? undefined : { outcome: { kind: 'value', value: null }, early: true }
  }

  const journalOf = (prefix: string, id: string): ProgramJournal => {
    const { told, nextSeq, begun, resumed, ...entries } = readEntries(known, prefix)
    const startedMs = entries.startedMs ?? now()
    if (entries.startedMs === undefined) writer.hold({ entry: startOf(prefix), result: String(startedMs) })
    rests.begin(prefix, told.length)
    const sequencer = createOutcomeSequencer(writer, { nextSeq, lastMs: told.at(-1)?.atMs ?? startedMs, now })

    const makeOne = (ask: InnerRequest, entry: string, make: Make): Promise<Made | undefined> => {
      const innerId = `${id}.${ask.number}`
      const idempotencyKey = keyOf(call.effectKey ?? callId, entry)
      const names = { callId: innerId, idempotencyKey, writeBack: writeBack?.(entry) }
      const { tool } = ask
      if (ask.kind === 'chain') return running.count(makeChain(entry, make))
      if (ask.kind === 'sleep') return sleep(wakeOf(prefix, ask), ask)
      if (tool === undefined) return running.count(make(names).then((outcome) => ({ outcome, early: true })))
      if (isProgramTool(executor.catalog, tool)) {
        const program = journalOf(`${entry}/`, innerId)
        return writer.drained().then(async () => ended(await quiet.count(make({ ...names, program }))))
      }
      return running.count(makeCall({ ask, entry, tool, names }, make, { ...ports, charges, writer, known }))
    }
    /** Numbers what came of a question; undefined when that is no end. */
    const settled = async (
      ask: InnerRequest,
      make: Make,
    ): Promise<{ readonly told: Promise<JournaledOutcome> } | undefined> => {
      const entry = entryOf(prefix, ask)
      const made = await makeOne(ask, entry, make)
      rests.end(`${entry}/`)
      if (made === undefined) return undefined
      const { outcome, early, forget } = made
      if (outcome.kind === 'result' && isPending(outcome.result)) waits = sooner(waits, outcome.result.error)
      else if (!isCut(ask, outcome)) {
        rests.give(prefix)
        return { told: sequencer.add(entry, outcome, early) }
      }
      if (outcome.kind === 'result' && outcome.result.error?.effect === 'none') await forget?.()
      return undefined
    }
    return {
      seed: seedOf(call.effectKey ?? callId, prefix),
      startedMs,
      outcomes: told,
      resumed,
      onQuiescent: (count) => rests.rest(prefix, count),
      async settle(ask, make) {
        goesOn()
        const other = begun.get(ask.number)
        if (other !== undefined && other !== ask.fingerprint) throw diverged(ask, other)
        const telling = isStopping()
          ? undefined
          : await settling.count(settled(ask, make)).catch((error: unknown) => {
              if (!ask.signal.aborted) fail(error)
              throw error
            })
        if (telling !== undefined) return telling.told
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

/** What is asked for has ended soon after its own signal aborts. */
const never = new AbortController().signal

/** The same in every attempt, so that whoever is called knows a repeat as one. */
function keyOf(callId: string, entry: string): string {
  return createHash('sha256').update(`${callId}/${entry}`).digest('hex')
}

/** Whether something was cut short with its program. */
function isCut({ signal }: InnerRequest, outcome: InnerOutcome): boolean {
  if (!signal.aborted || outcome.kind === 'value') return false
  const { code } = (outcome.kind === 'error' ? outcome.error : outcome.result.error) ?? {}
  return code === 'CANCELLED' || code === 'TIMEOUT'
}

function diverged({ number, fingerprint }: InnerRequest, begun: string): ToolError {
  const message = `Question ${number} of the program is not the one that an earlier attempt had begun.`
  return new ToolError('CODE_DIVERGED', message, { details: { number, expected: begun, actual: fingerprint } })
}

/** Ends the attempt whatever the program would do about it. */
function stopped(): ToolError {
  return new ToolError('CANCELLED', 'The attempt at the program was stopped.')
}

export interface SleepTimes {
  /** What takes no longer is simply waited for, and from the beginning by a later attempt. */
  readonly shortMs: number
  /** So long a sleep keeps its worker; then, when nothing else goes on, the call is handed back until it ends. */
  readonly holdMs: number
}

const defaultSleepTimes: SleepTimes = { shortMs: 2_000, holdMs: 500 }

/** The long sleeps of a program. When one ends is written down, so that it ends then whoever has the program. */
interface Sleeps {
  /** False when the program is to be handed back, for which `idle` says whether it may be. */
  sleep(entry: string, ms: number, idle: () => boolean, signal: AbortSignal): Promise<boolean>
  /** When the first of those that are under way ends. */
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

/** What one program within a call was given, and took in. */
interface Conversation {
  given: number
  rested: number
}

/** Knows whether each program of a call, those within it included, can do nothing without an answer. */
interface Rests {
  /** A program begins that was given so many outcomes before. It does something until it says otherwise. */
  begin(program: string, given: number): void
  /** It is given another outcome, so it has something to do from now on. */
  give(program: string): void
  /** It can do nothing more, having taken in so many outcomes. */
  rest(program: string, told: number): void
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
    rest(program, told) {
      const conversation = programs.get(program)
      if (conversation !== undefined) conversation.rested = told
    },
    end: (program) => void programs.delete(program),
    get all() {
      return [...programs.values()].every(({ given, rested }) => rested === given)
    },
  }
}
