import { createHash } from 'node:crypto'
import { type ErrorInfo, type OnCircuitOpen, type Result, ToolError } from '@gantry/contract'
import { type CatalogEntry, type Executor, retry, type WriteBack } from '@gantry/core'
import type { StepCall, StepMiddleware } from '@gantry/core/internal/chain/step-middleware'
import type { Claim } from '../../storage/calls/call-store.ts'
import { endedOutcome, isPending } from '../../storage/calls/outcomes.ts'
import type { JournalEntry, JournalRecords } from '../../storage/journal.ts'
import { type InnerCharges, programOf } from './inner-charges.ts'

export interface InnerCalls {
  /** Stands around every call of the chain. */
  readonly settle: StepMiddleware
  /** Whether an earlier attempt had the outcome of a call. */
  recalls(step: Pick<StepCall, 'stepId' | 'index'>): boolean
  /** Why this attempt has no outcome; undefined while it may have one. */
  readonly failure: unknown
  /**
   * What the chain waits for: of the calls that a person has yet to approve, or that may not begin yet, the one that may
   * go on first.
   */
  readonly waits: ErrorInfo | undefined
}

export interface InnerCallPorts {
  readonly executor: Pick<Executor, 'reconcile' | 'catalog'>
  readonly journal: JournalRecords
  readonly claim: Claim
  /** Makes the calls count for the limits of who asked for the chain. */
  readonly charges: InnerCharges
  /** Takes what the inner call of an entry of the journal writes back. */
  readonly writeBack?: (entry: string) => WriteBack
}

/**
 * The inner calls of one attempt at a chain.
 *
 * An inner call is *new* to the journal, *begun* or *done*. A done one is not made again: its Result is read back, and
 * because a chain binds its steps from Results alone, it comes to the same place again. A new one is made, and before
 * that begun durably when its effect may happen once only. A begun one belonged to an attempt that died: a tool that can
 * tell is asked, `once` ends as unknown, and what may be repeated is made again under the same key. The chain goes on
 * only when what came of a call is durable. What is not an end is not kept: a call that was cut short with its chain, or
 * one that could not start and ends the chain for now. When it certainly did nothing, it is new again.
 *
 * A call that a person must approve first stops the attempt, whatever its `onError` says, and so does one that could not
 * start and ends the chain for now: no other call is made from then on, and once those that run have ended, so that none is
 * cut short, so does the attempt.
 *
 * What a step costs was spent when the chain was taken in; only the further elements of a `forEach` pay for themselves.
 *
 * A store that is away is waited for as long as the chain may go on. A fence that is no longer the present one ends the
 * attempt. `known` is what the journal holds, and `goesOn` is told of a call that it does not.
 */
export function createInnerCalls(
  { executor, journal, claim, charges, writeBack }: InnerCallPorts,
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

  /** False when the chain was stopped before it could be written. */
  const write = async ({ signal }: StepCall, work: () => Promise<boolean>): Promise<boolean> => {
    try {
      if (await patiently(work, signal)) return true
      failure ??= lost(callId)
    } catch (error) {
      if (signal.aborted) return false
      failure ??= error
    }
    throw stopped()
  }
  /** A call that ended while its chain is stopped is an end even when it cannot be written: nothing follows it. */
  const keep = async (step: StepCall, entry: string, result: Result): Promise<Result> => {
    const text = JSON.stringify(result)
    await write(step, () => journal.done(holder, entry, text))
    return result
  }
  /** What came of a call that an earlier attempt began; undefined when it is to be made again. */
  const earlier = async (step: StepCall, tool: FoundTool, names: Names): Promise<Result | undefined> => {
    if (tool.effect === 'once') return unknownResult(names, tool, 'Its worker did not come back.')
    if (tool.effect !== 'reconcilable') return undefined
    const asking = { callId: names.callId, identity: call.identity, signal: step.signal }
    const answer = await executor.reconcile(step.tool, names.idempotencyKey, asking)
    if (answer.state === 'found') return answer.result
    if (answer.state === 'absent') return undefined
    if (step.signal.aborted) throw stopped()
    return unknownResult(names, tool, answer.reason)
  }
  /** Makes a call that is not done yet. */
  const settleNew = async (step: StepCall, entry: string, make: Parameters<StepMiddleware>[1]): Promise<Result> => {
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
        writeBack: writeBack?.(entry),
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

/** Knows whether calls of a chain or a program run. */
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
      signal.addEventListener('abort', end, { once: true })
      await promise
      signal.removeEventListener('abort', end)
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

/** Does what a store is asked for, again and again while it is away; rejects with the signal's reason. */
export function patiently<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const rule = { attempts: Number.POSITIVE_INFINITY, delayMs: 100, maxDelayMs: 5_000 }
  const isAway = (error: unknown): boolean => ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
  return retry(work, { rule, mayRepeat: isAway, signal })
}

function entryOf({ stepId, index }: Pick<StepCall, 'stepId' | 'index'>): string {
  return index === undefined ? stepId : `${stepId}.${index}`
}

interface Names {
  readonly callId: string
  readonly idempotencyKey: string
}

/** The same in every attempt, so that whoever is called knows a repeat as one. */
function keyOf(callId: string, { stepId, index }: StepCall): string {
  return createHash('sha256')
    .update(`${callId}/${stepId}/${index ?? ''}`)
    .digest('hex')
}

export interface FoundTool {
  readonly id: string
  readonly effect: CatalogEntry['tool']['effect']
  readonly onCircuitOpen?: OnCircuitOpen | undefined
}

/** A tool that is not there, or not yet, is as delicate as one that says nothing of itself. */
export function findTool({ catalog }: InnerCallPorts['executor'], id: string): FoundTool {
  try {
    const entry = catalog.find(id)
    return { id: entry.id, effect: entry.tool.effect, onCircuitOpen: entry.tool.onCircuitOpen }
  } catch {
    return { id, effect: 'once' }
  }
}

/** Whether a call was cut short with its chain, of all those that do not wait. */
function isEnd({ signal }: StepCall, { status }: Result): boolean {
  return !(signal.aborted && (status === 'cancelled' || status === 'timeout'))
}

/** Whether the chain is to wait for what this call waits for. */
function isWaiting(
  { decisive }: StepCall,
  result: Result,
  onOpen: OnCircuitOpen,
): result is Result & { readonly error: ErrorInfo } {
  const { error } = result
  const atRest = (error?.code === 'CIRCUIT_OPEN' && onOpen === 'wait') || error?.code === 'RATE_LIMITED'
  return isPending(result) || (atRest && decisive && error.effect === 'none')
}

export function unknownResult({ callId }: Names, { id }: FoundTool, reason: string): Result {
  const message = `${id} was begun by an earlier attempt, and nobody knows what it did. ${reason}`
  const failure = new ToolError('OUTCOME_UNKNOWN', message)
  return endedOutcome({ callId, kind: 'call', tool: id }, failure, 1, new Date()) as Result
}

export function lost(callId: string): ToolError {
  return new ToolError('CANCELLED', `Somebody else has the call ${callId}.`, { details: { lost: true } })
}

/** Ends the chain whatever a step's `onError` says. */
function stopped(): ToolError {
  return new ToolError('CANCELLED', 'The attempt at the chain was stopped.')
}
