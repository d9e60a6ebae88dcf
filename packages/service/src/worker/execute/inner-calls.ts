import { createHash } from 'node:crypto'
import { type ErrorInfo, type OnCircuitOpen, type Result, ToolError } from '@gantry/contract'
import type { InnerStep } from '@gantry/core'
import { type CatalogEntry, type EffectSink, type Executor, retry } from '@gantry/core'
import type { StepMiddleware } from '@gantry/core/internal/chain/chain'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { endedOutcome, isPending } from '../../storage/calls/call-facts.ts'
import type { Claim } from '../../storage/calls/call-store.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { type InnerCharges, programOf } from './inner-charges.ts'

export interface InnerCalls {
  /** Wraps every call of the chain. */
  readonly settle: StepMiddleware
  /** Whether an earlier attempt recorded the outcome of a call. */
  recalls(step: Pick<InnerStep, 'stepId' | 'index'>): boolean
  /** Why this attempt has no outcome; undefined while it may have one. */
  readonly failure: unknown
  /**
   * What the chain waits for: of the calls that require approval, or that may not begin yet, the one that can continue
   * first.
   */
  readonly waits: ErrorInfo | undefined
}

export interface InnerCallPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  /** Charges the calls to the limits of the chain's caller. */
  readonly charges: InnerCharges
  /** Stores the effects of the inner call of a journal entry. */
  readonly effectSink?: (entry: string) => EffectSink
}

/**
 * The inner calls of one attempt at a chain.
 * | ## States of an inner call in the journal
 * - `new`: it has no entry.
 * - `begun`: an attempt was about to make it.
 * - `done`: its Result is recorded.
 * | ## What an attempt does
 * - `done`: the Result is replayed. A chain binds its steps from Results alone, so it reaches the same state again.
 * - `new`: the call is made; if its effect may happen once only, its entry becomes `begun` durably first. The chain
 *   goes on only when the Result is durable.
 * - `begun`, by an attempt that was lost: a `reconcilable` tool is queried, `once` ends as unknown, and a repeatable call
 *   is made again under the same key.
 * - A call that did not end is not recorded: one that was aborted with its chain, or one that could not start and makes
 *   the chain wait. When it certainly did nothing, it becomes `new` again.
 * | A call that requires approval stops the attempt, whatever its `onError`, and so does one that could not start and
 * makes the chain wait: no other call begins from then on, and the attempt ends once the running calls have ended.
 * | The cost of the steps was spent when the chain was admitted; only the further elements of a `forEach` are charged
 * here.
 * | While the store is unavailable the attempt waits, as long as the chain may last. An outdated fence ends the
 * attempt. `known` holds the entries of the journal, and `goesOn` is called for a call without one.
 */
export function createInnerCalls(
  { executor, journal, claim, charges, effectSink }: InnerCallPorts,
  known: ReadonlyMap<string, JournalEntry>,
  goesOn: () => void,
): InnerCalls {
  const { callId, fence, call } = claim
  const holder = { callId, fence }
  const running = createRunning()
  let failure: unknown
  let waits: ErrorInfo | undefined

  const onCircuitOpen = (tool: string): OnCircuitOpen =>
    call.onCircuitOpen ?? findTool(executor, tool).onCircuitOpen ?? 'fail'

  /** False when the chain was stopped before the write succeeded. */
  const write = async ({ signal }: InnerStep, work: () => Promise<boolean>): Promise<boolean> => {
    try {
      if (await patiently(work, signal)) return true
      failure ??= lost(callId)
    } catch (error) {
      if (signal.aborted) return false
      failure ??= error
    }
    throw stopped()
  }
  /** A call that ended while its chain is stopped counts even when it cannot be written: nothing follows it. */
  const keep = async (step: InnerStep, entry: string, result: Result): Promise<Result> => {
    const text = JSON.stringify(result)
    await write(step, () => journal.done(holder, entry, text))
    return result
  }
  /** The outcome of a call that an earlier attempt began; undefined when it is to be made again. */
  const earlier = async (step: InnerStep, tool: FoundTool, names: Names): Promise<Result | undefined> => {
    if (tool.effect === 'once') return unknownResult(names, tool, 'Its worker was lost.')
    if (tool.effect !== 'reconcilable') return undefined
    const asking = { callId: names.callId, identity: call.identity, signal: step.signal }
    const answer = await executor.reconcile(step.tool, names.idempotencyKey, asking)
    if (answer.state === 'found') return answer.result
    if (answer.state === 'absent') return undefined
    if (step.signal.aborted) throw stopped()
    return unknownResult(names, tool, answer.reason)
  }
  /** Makes a call that is not done yet. */
  const settleNew = async (step: InnerStep, entry: string, make: Parameters<StepMiddleware>[1]): Promise<Result> => {
    goesOn()
    const tool = findTool(executor, step.tool)
    const names = { callId: `${callId}.${entry}`, idempotencyKey: keyOf(call.effectKey ?? callId, step) }
    const found = known.has(entry) ? await earlier(step, tool, names) : undefined
    if (found !== undefined) return keep(step, entry, found)
    const delicate = tool.effect === 'once' || tool.effect === 'reconcilable'
    let begun = false
    const asked = { callId: names.callId, tool: tool.id, signal: step.signal, paid: (step.index ?? 0) === 0 }
    const made = charges.call(asked, async () => {
      if (delicate && !(await write(step, () => journal.begin(holder, entry)))) throw stopped()
      begun = delicate
      return make({
        ...names,
        effectSink: effectSink?.(entry),
        ...programOf({ executor, charges }, step.tool, names.callId),
      })
    })
    const result = await made.catch((error: unknown) => {
      throw step.signal.aborted ? stopped() : error
    })
    if (isWaiting(step, result, onCircuitOpen(step.tool))) waits = sooner(waits, result.error)
    else if (isEnd(step, result)) return keep(step, entry, result)
    if (begun && result.error?.effect === 'none') await write(step, () => journal.forget(holder, entry))
    return result
  }
  return {
    get failure() {
      return failure
    },
    get waits() {
      return waits
    },
    recalls: (step) => known.get(entryOf(step))?.state === 'done',
    async settle(step, make) {
      const entry = entryOf(step)
      const before = known.get(entry)
      if (before?.state === 'done') return JSON.parse(before.result)
      const result = waits === undefined ? await running.count(settleNew(step, entry, make)) : undefined
      if (result !== undefined && !isWaiting(step, result, onCircuitOpen(step.tool))) return result
      await running.none(step.signal)
      if (result !== undefined && !isPending(result)) return result
      throw stopped()
    },
  }
}

/** Counts the running calls of a chain or a program. */
export function createRunning() {
  let calls = 0
  let waiting: (() => void)[] = []
  return {
    get calls() {
      return calls
    },
    async count<T>(call: Promise<T>): Promise<T> {
      calls += 1
      try {
        return await call
      } finally {
        calls -= 1
        if (calls === 0) for (const resolve of waiting.splice(0)) resolve()
      }
    },
    /** Resolves when none runs, or the signal aborts. */
    async none(signal: AbortSignal): Promise<void> {
      if (calls === 0 || signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = (): void => resolve()
      waiting.push(end)
      const unlisten = onAbort(signal, end)
      await promise
      unlisten()
      waiting = waiting.filter((other) => other !== end)
    },
  }
}

export function sooner(one: ErrorInfo | undefined, other: ErrorInfo): ErrorInfo {
  return one === undefined || waitMs(other) < waitMs(one) ? other : one
}

function waitMs({ details }: ErrorInfo): number {
  return Number(details?.retryAfterMs ?? details?.expiresMs)
}

/** Repeats an operation while the store is unavailable; rejects with the signal's reason. */
export function patiently<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const rule = { attempts: Number.POSITIVE_INFINITY, delayMs: 100, maxDelayMs: 5_000 }
  const isUnavailable = (error: unknown): boolean => ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
  return retry(work, { rule, mayRepeat: isUnavailable, signal })
}

function entryOf({ stepId, index }: Pick<InnerStep, 'stepId' | 'index'>): string {
  return index === undefined ? stepId : `${stepId}.${index}`
}

interface Names {
  readonly callId: string
  readonly idempotencyKey: string
}

/** The same in every attempt, so that the tool recognises a repeat. */
function keyOf(callId: string, { stepId, index }: InnerStep): string {
  return createHash('sha256')
    .update(`${callId}/${stepId}/${index ?? ''}`)
    .digest('hex')
}

export interface FoundTool {
  readonly id: string
  readonly effect: CatalogEntry['tool']['effect']
  readonly onCircuitOpen?: OnCircuitOpen | undefined
}

/** An unknown tool counts as one without a declared effect, which may happen once only. */
export function findTool({ catalog }: InnerCallPorts['executor'], id: string): FoundTool {
  try {
    const entry = catalog.find(id)
    return { id: entry.id, effect: entry.tool.effect, onCircuitOpen: entry.tool.onCircuitOpen }
  } catch {
    return { id, effect: 'once' }
  }
}

/** Whether a call that does not wait has ended, rather than been aborted with its chain. */
function isEnd({ signal }: InnerStep, { status }: Result): boolean {
  return !(signal.aborted && (status === 'cancelled' || status === 'timeout'))
}

/** Whether the chain waits for this call. */
function isWaiting(
  { decisive }: InnerStep,
  result: Result,
  onOpen: OnCircuitOpen,
): result is Result & { readonly error: ErrorInfo } {
  const { error } = result
  const atRest = (error?.code === 'CIRCUIT_OPEN' && onOpen === 'wait') || error?.code === 'RATE_LIMITED'
  return isPending(result) || (atRest && decisive && error.effect === 'none')
}

export function unknownResult({ callId }: Names, { id }: FoundTool, reason: string): Result {
  const message = `${id} was begun by an earlier attempt, and its outcome is unknown. ${reason}`
  const failure = new ToolError('OUTCOME_UNKNOWN', message)
  return endedOutcome({ callId, kind: 'call', tool: id }, failure, 1, new Date())
}

export function lost(callId: string): ToolError {
  return new ToolError('CANCELLED', `Lost the lease on call ${callId} to another worker.`, { details: { lost: true } })
}

/** Ends the chain whatever the `onError` of a step. */
function stopped(): ToolError {
  return new ToolError('CANCELLED', 'The attempt at the chain was stopped.')
}
