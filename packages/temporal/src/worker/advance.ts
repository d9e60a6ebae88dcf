import { type ChainStep, type Json, type JsonObject, type Result, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Audit, AuditRecord, CodeOptions, Executor, InnerOutcome, ProgramJournal } from '@gantry/core'
import type {
  AdvanceAnswer,
  AdvanceInput,
  CallRequest,
  JournalEntry,
  WorkDocument,
  WorkRequest,
} from '../protocol/work.ts'
import { asJson } from './as-json.ts'
import { callRequest } from './call-requests.ts'
import { type ChainAttempt, startChain } from './chain-attempt.ts'
import { createStillness, untilAborted } from './stillness.ts'

export interface AdvanceParts {
  readonly executor: Executor
  /** That of the executor; without it only the calls of a program are on the record, and not the program. */
  readonly audit?: Audit | undefined
  readonly work: WorkDocument
  readonly journal: readonly JournalEntry[]
  readonly input: AdvanceInput
  /** When the work was handed over. */
  readonly startedMs: number
  readonly signal: AbortSignal
}

/**
 * Brings the work as far as its journal carries it: to its end, or to requests whose outcomes it waits for. It has no
 * effects but reads, so it may be repeated anywhere.
 */
export function advanceWork(parts: AdvanceParts): Promise<AdvanceAnswer> {
  return parts.work.kind === 'chain' ? advanceChain(parts) : advanceProgram(parts)
}

function stopError({ stop }: AdvanceInput): ToolError | undefined {
  if (stop === undefined) return undefined
  return stop === 'timeout'
    ? new ToolError('TIMEOUT', 'The work did not end within its timeout.')
    : new ToolError('CANCELLED', 'The work was cancelled.')
}

/** Ends an attempt that waits; the work itself learns nothing of it. */
function paused(): ToolError {
  return new ToolError('CANCELLED', 'The attempt waits for outcomes.')
}

async function advanceChain({
  executor,
  work,
  journal,
  input,
  startedMs,
  signal,
}: AdvanceParts): Promise<AdvanceAnswer> {
  const stop = new AbortController()
  const requests: CallRequest[] = []
  const { steps, input: given = null, limits } = work.body
  let isPaused = false
  const stillness = createStillness(
    () => attempt.waiting > 0,
    () => {
      const ending = stopError(input)
      isPaused = ending === undefined
      stop.abort(ending ?? paused())
    },
  )
  const attempt = startChain({
    executor,
    id: work.id,
    prefix: '',
    // The client checked them; the chain refuses a value that is not a list of steps.
    steps: steps as unknown as readonly ChainStep[],
    input: given,
    ...(isObject(limits) ? { limits } : {}),
    journal: byKey(journal),
    signal: AbortSignal.any([signal, stop.signal]),
    onRequest(request) {
      requests.push(request)
      stillness.moved()
    },
  })
  const result = await attempt.ended
  signal.throwIfAborted()
  if (isPaused) return { kind: 'waits', made: [], requests: fresh(requests, input) }
  return { kind: 'end', end: asJson(ended(result, input, startedMs)) }
}

/** The outcome with the times of the whole work; a timeout is a cancellation by the workflow. */
function ended<T extends Pick<Result, 'error' | 'status'>>(outcome: T, { stop }: AdvanceInput, startedMs: number): T {
  const times = { startedAt: new Date(startedMs).toISOString(), durationMs: Math.max(0, Date.now() - startedMs) }
  if (stop !== 'timeout' || outcome.error?.code !== 'CANCELLED') return { ...outcome, ...times }
  const error = { ...outcome.error, code: 'TIMEOUT', message: 'The work did not end within its timeout.' }
  return { ...outcome, ...times, error, status: 'timeout' }
}

function byKey(journal: readonly JournalEntry[]): ReadonlyMap<string, JournalEntry> {
  return new Map(journal.map((entry) => [entry.key, entry]))
}

function fresh<T extends WorkRequest>(requests: readonly T[], { running }: AdvanceInput): readonly T[] {
  const known = new Set(running)
  return requests.filter(({ key }) => !known.has(key))
}

async function advanceProgram(parts: AdvanceParts): Promise<AdvanceAnswer> {
  const { executor, work, journal, input, startedMs, signal } = parts
  const stop = new AbortController()
  const outcomes = journal.flatMap((entry) =>
    /^\d+$/.test(entry.key) ? [{ ...entry, number: Number(entry.key) }] : [],
  )
  const known = byKey(journal)
  const made: JournalEntry[] = []
  const requests: WorkRequest[] = []
  const chains = new Set<ChainAttempt>()
  let [rested, reads, waiting] = [-1, 0, 0]
  let isPaused = false
  const isStill = (): boolean =>
    rested === outcomes.length + made.length &&
    reads === 0 &&
    waiting + chains.size > 0 &&
    [...chains].every((chain) => chain.waiting > 0)
  const stillness = createStillness(isStill, () => {
    const ending = stopError(input)
    isPaused = ending === undefined
    stop.abort(ending ?? paused())
  })
  const wait = async (request: WorkRequest, ask: AbortSignal): Promise<never> => {
    waiting += 1
    requests.push(request)
    stillness.moved()
    return await untilAborted(ask).finally(() => {
      waiting -= 1
    })
  }
  const add = (key: string, fingerprint: string, outcome: InnerOutcome): JournalEntry => {
    const last = made.at(-1)?.atMs ?? outcomes.at(-1)?.atMs ?? 0
    const entry = { key, fingerprint, outcome, atMs: Math.max(last, Date.now()) }
    made.push(entry)
    stillness.moved()
    return entry
  }
  const chain = async (number: number, args: Json | undefined, ask: AbortSignal): Promise<InnerOutcome> => {
    const { steps = null, input: given = null } = isObject(args) ? args : {}
    const attempt = startChain({
      executor,
      id: work.id,
      prefix: `${number}.`,
      steps: steps as unknown as readonly ChainStep[],
      input: given,
      journal: known,
      signal: ask,
      onRequest(request) {
        requests.push(request)
        stillness.moved()
      },
    })
    chains.add(attempt)
    const { output, error } = await attempt.ended.finally(() => chains.delete(attempt))
    ask.throwIfAborted()
    const calls = { calls: attempt.recalled }
    return error === undefined ? { kind: 'value', value: output, ...calls } : { kind: 'error', error, ...calls }
  }
  const program: ProgramJournal = {
    seed: work.seed,
    startedMs,
    outcomes,
    resumed: journal.length + input.running.length > 0,
    onQuiescent(received) {
      rested = received
      stillness.moved()
    },
    async settle({ number, kind, tool, args = null, fingerprint, sleepMs = 0, signal: ask }, make) {
      const key = String(number)
      if (kind === 'sleep') return wait({ kind: 'sleep', key, fingerprint, ms: sleepMs }, ask)
      if (kind === 'call') return wait(callRequest(executor, { key, fingerprint, tool: tool ?? '', args }), ask)
      if (kind === 'chain') return add(key, fingerprint, await chain(number, args, ask))
      reads += 1
      const outcome = await make().finally(() => {
        reads -= 1
      })
      return add(key, fingerprint, outcome)
    },
  }
  const record = createProgramAudit(parts)
  const result = await executor.under({ audit: record.audit }).code(String(work.body.code), {
    ...optionsOf(work.body),
    callId: work.id,
    identity: work.identity,
    program,
    signal: AbortSignal.any([signal, stop.signal]),
  })
  signal.throwIfAborted()
  if (isPaused) return { kind: 'waits', made, requests: fresh(requests, input) }
  await record.end()
  return { kind: 'end', end: asJson(ended(result, input, startedMs)) }
}

function optionsOf({ language, limits, check }: JsonObject): Pick<CodeOptions, 'language' | 'limits' | 'check'> {
  // The client had them from the options of `code`; the schema of the tool checks them.
  return {
    ...(language === undefined ? {} : { language: language as NonNullable<CodeOptions['language']> }),
    ...(isObject(limits) ? { limits } : {}),
    ...(check === true ? { check } : {}),
  }
}

/** The record of a program is its first start and its end, not every attempt between them. */
function createProgramAudit({ audit, journal, input }: AdvanceParts) {
  const isFirst = journal.length + input.running.length === 0
  let held: AuditRecord | undefined
  const quiet: Audit = {
    write(record) {
      if (record.phase === 'start') return isFirst ? audit?.write(record) : undefined
      held = record
      return undefined
    },
  }
  return {
    audit: quiet,
    async end(): Promise<void> {
      if (held !== undefined) await audit?.write(held)
    },
  }
}
