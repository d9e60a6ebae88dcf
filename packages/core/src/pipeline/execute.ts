import type { JsonObject, RetryRule, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { isRepeatable, pause, retry } from '../resilience/retry.ts'
import { attempt, type Hold } from './attempt.ts'
import type { Passage } from './ports.ts'
import type { PreparedTool } from './prepare.ts'
import { recordStart } from './record.ts'
import { resolveNext, type Target } from './resolve.ts'
import { errorInfo, failureOf } from './result.ts'
import type { Run } from './run.ts'
import { resolveSecrets } from './secrets.ts'

/**
 * Runs the tool: its secrets, the intent on record without them, a slot where the tool limits itself, then attempts
 * until one ends the call, each past the safeguards of its backend and on to the next backend when it did not start.
 * Returns the raw output; throws what ended the call.
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
 * Does the work again once the circuit may let it through, for those who chose to wait. A circuit that rests for longer than
 * the call may last is an answer at once.
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

/** How long the call may still last; the time that an approver took is not its own. */
function leftMs(run: Run): number {
  if (run.approvedBy !== undefined) return run.timeoutMs()
  return run.timeoutMs() - (run.ports.clock.monotonic() - run.startedMonotonic)
}

/** Arguments for each attempt, because a tool may change what it was given. */
function copies(args: JsonObject): () => JsonObject {
  try {
    const pristine = structuredClone(args)
    return () => structuredClone(pristine)
  } catch {
    // What a vendor's schema made of the arguments may be more than data; then all attempts share it.
    return () => args
  }
}

const none: ToolContext['secrets'] = Object.freeze({})

/** Keeps the slot until the tool has really ended, which for a tool that ignores its signal is after the call. */
async function withSlot(run: Run, tool: PreparedTool, work: (hold: Hold) => Promise<unknown>): Promise<unknown> {
  const { concurrency, concurrencyKey } = tool.entry.tool
  if (concurrency === undefined) return work(() => undefined)
  const { tenant } = run.request.identity
  const taking = run.ports.slots.take(concurrencyKey ?? tool.entry.key, concurrency, run.signal, tenant)
  const release = await run.within(taking).catch((error: unknown) => {
    // The slot may be granted at the very moment in which the call is stopped.
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

/** Tries until an attempt ends the call, or the rule, the effect class or what all calls may repeat forbids another. */
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
    // To wait for a circuit is the choice of the caller or the tool, and not what a retry is for.
    if (failure.code === 'CIRCUIT_OPEN') return false
    return run.stopped === undefined && !run.streamed && isRepeatable(failure, entry.tool.effect)
  }
  const options = { rule, mayRepeat, random, signal: run.signal, ...(budget === undefined ? {} : { budget }) }
  return retry(work, options).catch((error: unknown) => {
    // An attempt that did not start does not undo what an earlier one may have done.
    throw changed !== undefined && failureOf(run, error).code === 'CIRCUIT_OPEN' ? changed : error
  })
}

/** Goes from backend to backend until one starts the call: what may have begun at one is never begun at another. */
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
      // Before the next backend is the run's, because what may be shown depends on whose secrets there are.
      const shown = errorInfo(run, failure)
      const next = didNotStart(run, failure) ? resolveNext(run, tool, target) : undefined
      if (next === undefined) throw error
      const from = { kind: target.backend.kind, name: target.backend.name }
      const to = { kind: next.backend.kind, name: next.backend.name }
      const told = { callId: run.request.callId, tool: tool.entry.id, from, to, failure: shown }
      run.ports.events.emit('call:failover', told)
      target = next
    }
  }
}

const notStarted: readonly string[] = ['BACKEND_UNAVAILABLE', 'CIRCUIT_OPEN', 'RATE_LIMITED']

function didNotStart(run: Run, { code, effect }: ToolError): boolean {
  return run.stopped === undefined && !run.streamed && effect === 'none' && notStarted.includes(code)
}

/** Makes an attempt past the safeguards of its backend, and tells them how it ended; waits only where it has to. */
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
