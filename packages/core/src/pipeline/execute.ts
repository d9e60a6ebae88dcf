import type { JsonObject, RetryRule, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { isPromiseLike } from '../json/plain.ts'
import { isRepeatable, pause, retry } from '../resilience/retry.ts'
import { traced } from '../tracing/tracer.ts'
import { CallContext, resolveSecrets } from './context.ts'
import { drain, type ToolGenerator } from './drain.ts'
import { errorInfo, failureOf } from './failure.ts'
import type { PreparedTool } from './lookup.ts'
import type { Passage } from './ports.ts'
import { recordStart } from './record.ts'
import { resolveNext, type Target } from './resolve.ts'
import type { Run } from './run.ts'

/**
 * Runs the tool:
 * 1. fetches its secrets, and writes the start entry of the audit log without them;
 * 2. waits for a slot when the tool has a concurrency limit;
 * 3. makes attempts until one ends the call. Each passes the safeguards of its backend, and fails over to the next
 *    backend when it did not start.
 *
 * Returns the raw output; throws the error that ended the call.
 */
export function execute(run: Run, tool: PreparedTool, target: Target, args: JsonObject): unknown {
  run.check()
  const { secrets, concurrency, retry, onCircuitOpen } = tool.entry.tool
  const rule = run.request.retry ?? retry
  const waits = (run.request.onCircuitOpen ?? onCircuitOpen) === 'wait'
  const plain = secrets === undefined && concurrency === undefined && rule === undefined && !waits
  if (!plain || tool.entry.tool.backends.length > 1) return executeGuarded(run, tool, target, args, rule, waits)
  const intent = recordStart(run, tool, args)
  if (intent === undefined && !run.ports.safeguards.guards(target.backend)) {
    return attempt(run, tool, target, args, none)
  }
  const work = (hold: Hold): unknown => attempt(run, tool, target, args, none, hold)
  if (intent === undefined) return pastSafeguards(run, tool, target, args, work)
  return run.within(intent).then(() => pastSafeguards(run, tool, target, args, work))
}

async function executeGuarded(
  run: Run,
  tool: PreparedTool,
  target: Target,
  args: JsonObject,
  rule: RetryRule | undefined,
  waits: boolean,
): Promise<unknown> {
  const names = tool.entry.tool.secrets
  const secrets = names === undefined ? none : await resolveSecrets(run, names)
  const intent = recordStart(run, tool, args)
  if (intent !== undefined) await run.within(intent)
  const single = (rule === undefined || rule.attempts < 2) && tool.entry.tool.backends.length < 2
  const fresh = single && !waits ? () => args : copies(args)
  const work = (): Promise<unknown> =>
    withSlot(run, tool, (hold) =>
      repeat(run, tool, rule, () =>
        throughBackends(run, tool, target, args, (next, alsoHold) =>
          attempt(run, tool, next, fresh(), secrets, (until) => {
            hold(until)
            alsoHold(until)
          }),
        ),
      ),
    )
  return waits ? untilClosed(run, work) : work()
}

/**
 * Repeats the work when its circuit may allow it, for calls with `onCircuitOpen: 'wait'`. Fails at once when the circuit
 * stays open beyond the deadline of the call.
 */
async function untilClosed(run: Run, work: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const { code, effect, details } = failureOf(run, error)
      const retryAfterMs = Number(details?.retryAfterMs)
      const refused = code === 'CIRCUIT_OPEN' && effect === 'none' && run.stopped === undefined
      if (!refused || !(retryAfterMs < leftMs(run))) throw error
      await run.within(pause(retryAfterMs, run.signal))
    }
  }
}

/** The time left for the call. Its timeout starts anew after an approval. */
function leftMs(run: Run): number {
  if (run.approvedBy !== undefined) return run.timeoutMs()
  return run.timeoutMs() - (run.ports.clock.monotonic() - run.startedMonotonic)
}

/** A copy of the arguments for each attempt, because a tool may change them. */
function copies(args: JsonObject): () => JsonObject {
  try {
    const pristine = structuredClone(args)
    return () => structuredClone(pristine)
  } catch {
    // A Standard Schema may produce values that cannot be cloned; then all attempts share them.
    return () => args
  }
}

const none: ToolContext['secrets'] = Object.freeze({})

/** Holds the slot until the tool ends, which is after the call for a tool that ignores its signal. */
async function withSlot(run: Run, tool: PreparedTool, work: (hold: Hold) => Promise<unknown>): Promise<unknown> {
  const { concurrency, concurrencyKey } = tool.entry.tool
  if (concurrency === undefined) return work(() => undefined)
  const { tenant } = run.request.identity
  const taking = run.ports.slots.take(concurrencyKey ?? tool.entry.key, concurrency, run.signal, tenant)
  const release = await run.within(taking).catch((error: unknown) => {
    // The slot may be granted in the same turn in which the call is stopped.
    taking.then(
      (granted) => granted(),
      () => undefined,
    )
    throw error
  })
  let until: PromiseLike<unknown> | undefined
  try {
    return await work((running) => {
      until = running
    })
  } finally {
    if (run.stopped !== undefined && until !== undefined) until.then(release, release)
    else release()
  }
}

/** Retries until an attempt ends the call, or the retry rule, the effect class or the retry budget forbids another. */
function repeat(
  run: Run,
  { entry }: PreparedTool,
  rule: RetryRule | undefined,
  work: () => Promise<unknown>,
): Promise<unknown> {
  if (rule === undefined) return work()
  const { random, safeguards } = run.ports
  const budget = run.backend === undefined ? undefined : safeguards.budget(run.backend)
  let changed: unknown
  const mayRepeat = (error: unknown): boolean => {
    const failure = failureOf(run, error)
    if (failure.effect === 'possible') changed = error
    // A retry does not wait for a circuit; `onCircuitOpen` decides that.
    if (failure.code === 'CIRCUIT_OPEN') return false
    return run.stopped === undefined && !run.streamed && isRepeatable(failure, entry.tool.effect)
  }
  const options = { rule, mayRepeat, random, signal: run.signal, ...(budget === undefined ? {} : { budget }) }
  return retry(work, options).catch((error: unknown) => {
    // An attempt that did not start does not undo the effects of an earlier one.
    throw changed !== undefined && failureOf(run, error).code === 'CIRCUIT_OPEN' ? changed : error
  })
}

/** Fails over until one backend starts the call. A call that may have started is not sent to another backend. */
async function throughBackends(
  run: Run,
  tool: PreparedTool,
  first: Target,
  args: JsonObject,
  work: (target: Target, hold: Hold) => unknown,
): Promise<unknown> {
  run.backend = first.backend
  for (let target = first; ; ) {
    try {
      const here = target
      return await pastSafeguards(run, tool, here, args, (hold) => work(here, hold))
    } catch (error) {
      const failure = failureOf(run, error)
      // Redact before the run switches to the next backend, because the redactor depends on the backend.
      const shown = errorInfo(run, failure)
      const next = didNotStart(run, failure) ? resolveNext(run, tool, target) : undefined
      if (next === undefined) throw error
      const from = { kind: target.backend.kind, name: target.backend.name }
      const to = { kind: next.backend.kind, name: next.backend.name }
      const event = { callId: run.request.callId, tool: tool.entry.id, from, to, failure: shown }
      run.ports.events.emit('call:failover', event)
      target = next
    }
  }
}

const notStarted: readonly string[] = ['BACKEND_UNAVAILABLE', 'CIRCUIT_OPEN', 'RATE_LIMITED']

function didNotStart(run: Run, { code, effect }: ToolError): boolean {
  return run.stopped === undefined && !run.streamed && effect === 'none' && notStarted.includes(code)
}

/** Makes an attempt through the safeguards of its backend and reports its outcome to them. Awaits only promises. */
function pastSafeguards(
  run: Run,
  tool: PreparedTool,
  { backend, binding }: Target,
  args: JsonObject,
  work: (hold: Hold) => unknown,
): unknown {
  const { safeguards } = run.ports
  if (!safeguards.guards(backend)) return work(noHold)
  const { tenant } = run.request.identity
  const entered = safeguards.enter({ tool, backend, binding, args, tenant }, run)
  if (entered instanceof Promise) return run.within(entered).then((passage) => through(run, passage, work))
  return through(run, entered, work)
}

const noHold: Hold = () => undefined

function through(run: Run, passage: Passage, work: (hold: Hold) => unknown): unknown {
  let until: PromiseLike<unknown> | undefined
  const fail = (error: unknown): never => {
    passage.fail(failureOf(run, error), run.stopped === undefined ? undefined : until)
    throw error
  }
  let raw: unknown
  try {
    raw = work((running) => {
      until = running
    })
  } catch (error) {
    return fail(error)
  }
  if (raw instanceof Promise) {
    return raw.then((value: unknown) => {
      passage.succeed()
      return value
    }, fail)
  }
  passage.succeed()
  return raw
}

/** Holds the resources of the call until the tool has ended. */
export type Hold = (until: PromiseLike<unknown>) => void

/** One attempt. A promise is awaited within the run's deadline; a synchronous answer needs no timer. */
export function attempt(
  run: Run,
  tool: PreparedTool,
  target: Target,
  args: JsonObject,
  secrets: ToolContext['secrets'],
  hold?: Hold,
): unknown {
  run.attempts += 1
  run.begun = true
  // Usage of an earlier attempt does not apply to this one.
  run.measured = undefined
  const span = run.trace?.attempt(target.backend, run.attempts)
  const context = new CallContext(run, run.attempts, secrets, span)
  if (span === undefined) return callBackend(run, tool, target, args, context, hold)
  const codeOf = (error: unknown): string => failureOf(run, error).code
  return traced(span, () => callBackend(run, tool, target, args, context, hold), codeOf)
}

function callBackend(
  run: Run,
  tool: PreparedTool,
  { backend, binding }: Target,
  args: JsonObject,
  context: CallContext,
  hold: Hold | undefined,
): unknown {
  const { entry } = tool
  const raw = backend.call({ id: entry.id, tool: entry.tool, args, binding }, context)
  if (typeof raw !== 'object' || raw === null) return raw
  if (isGenerator(raw)) return drain(run, tool, raw, (until) => leave(run, entry.id, until, hold))
  if (!isPromiseLike(raw)) return raw
  const work = Promise.resolve(raw)
  leave(run, entry.id, work, hold)
  const answer = run.within(work)
  if (backend.kind === 'local') return answer
  // A backend may know only after the first bytes of the answer that it is a stream.
  return answer.then((value) =>
    isGenerator(value) ? drain(run, tool, value, (until) => leave(run, entry.id, until, hold)) : value,
  )
}

/** Called for a tool that outlives its call: releases the slot at its end and emits `call:late`. */
function leave(run: Run, tool: string, until: Promise<unknown>, hold: Hold | undefined): void {
  hold?.(until)
  watchLate(run, tool, until)
}

/** Emits `call:late` when a tool ends after its call. The outcome of the call does not change. */
function watchLate(run: Run, tool: string, work: PromiseLike<unknown>): void {
  const { events } = run.ports
  if (!events.has('call:late')) return
  const emitLate = (ended: 'returned' | 'threw') => () => {
    if (run.ended) events.emit('call:late', { callId: run.request.callId, tool, ended })
  }
  work.then(emitLate('returned'), emitLate('threw'))
}

/** Whether the tool returned a generator; other iterables are values. */
function isGenerator(value: unknown): value is ToolGenerator {
  if (typeof value !== 'object' || value === null) return false
  const tag: unknown = Reflect.get(value, Symbol.toStringTag)
  return tag === 'AsyncGenerator' || tag === 'Generator'
}
