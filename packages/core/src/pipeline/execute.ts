import type { JsonObject, RetryRule, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { backoffMs, pause } from '../resilience/backoff.ts'
import { CallContext } from './context.ts'
import { drain, isGenerator } from './drain.ts'
import { failureOf } from './failure.ts'
import type { PreparedTool } from './prepare.ts'
import { recordStart } from './record.ts'
import type { Target } from './resolve.ts'
import { resolveSecrets } from './resolve-secrets.ts'
import type { Run } from './run.ts'

/**
 * Runs the tool: its secrets, the intent on record without them, a slot where the tool limits itself, then attempts until one ends the call.
 * Returns the raw output; throws what ended the call.
 */
export function execute(run: Run, tool: PreparedTool, target: Target, args: JsonObject): unknown {
  run.check()
  const { secrets, concurrency, retry } = tool.entry.tool
  const rule = run.request.retry ?? retry
  if (secrets !== undefined || concurrency !== undefined || rule !== undefined) {
    return executeGuarded(run, tool, target, args, rule)
  }
  const intent = recordStart(run, tool, args)
  if (intent === undefined) return attempt(run, tool, target, args, none)
  return run.within(intent).then(() => attempt(run, tool, target, args, none))
}

async function executeGuarded(
  run: Run,
  tool: PreparedTool,
  target: Target,
  args: JsonObject,
  rule: RetryRule | undefined,
): Promise<unknown> {
  const names = tool.entry.tool.secrets
  const secrets = names === undefined ? none : await resolveSecrets(run, names)
  const intent = recordStart(run, tool, args)
  if (intent !== undefined) await run.within(intent)
  const fresh = rule === undefined || rule.attempts < 2 ? () => args : copies(args)
  return withSlot(run, tool, (hold) =>
    repeat(run, rule, async () => attempt(run, tool, target, fresh(), secrets, hold)),
  )
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
async function withSlot(
  run: Run,
  tool: PreparedTool,
  work: (hold: (until: PromiseLike<unknown>) => void) => Promise<unknown>,
): Promise<unknown> {
  const { concurrency, concurrencyKey } = tool.entry.tool
  if (concurrency === undefined) return work(() => undefined)
  const taking = run.ports.slots.take(concurrencyKey ?? tool.entry.key, concurrency, run.signal)
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

/** Tries until an attempt ends the call, or the rule or the effect class forbids another. */
async function repeat(run: Run, rule: RetryRule | undefined, work: () => Promise<unknown>): Promise<unknown> {
  while (true) {
    try {
      return await work()
    } catch (error) {
      if (rule === undefined || run.attempts >= rule.attempts || !mayRepeat(run, failureOf(run, error))) throw error
      await run.within(pause(backoffMs(rule, run.attempts, run.ports.random), run.signal))
    }
  }
}

/** A repeat is safe when nothing can have happened, or when the tool's effect class says that repeating is. */
function mayRepeat(run: Run, failure: ToolError): boolean {
  if (run.stopped !== undefined || run.streamed) return false
  if (failure.effect === 'none') return failure.retryable
  const effect = run.tool?.entry.tool.effect
  const safe = effect === 'read' || effect === 'keyed' || effect === 'repeatable'
  return safe && (failure.retryable || failure.code === 'BACKEND_FAILED')
}

/** One try. Anything asynchronous is waited for within the run's time; a synchronous answer needs no clock. */
function attempt(
  run: Run,
  tool: PreparedTool,
  { backend, binding }: Target,
  args: JsonObject,
  secrets: ToolContext['secrets'],
  hold?: (until: PromiseLike<unknown>) => void,
): unknown {
  const { entry } = tool
  run.attempts += 1
  run.begun = true
  const context = new CallContext(run, run.attempts, secrets)
  const raw = backend.call({ id: entry.id, tool: entry.tool, args, binding }, context)
  if (typeof raw !== 'object' || raw === null) return raw
  if (isGenerator(raw)) return drain(run, tool, raw, (until) => leave(run, entry.id, until, hold))
  if (!isPromiseLike(raw)) return raw
  const work = Promise.resolve(raw)
  leave(run, entry.id, work, hold)
  return run.within(work)
}

/** What outlives a call that is given up on: the slot it holds, and whoever wants to hear of its end. */
function leave(run: Run, tool: string, until: Promise<unknown>, hold?: (until: PromiseLike<unknown>) => void): void {
  hold?.(until)
  watchLate(run, tool, until)
}

/** Tells subscribers when a tool that was given up on ends after all; its outcome changes nothing. */
function watchLate(run: Run, tool: string, work: PromiseLike<unknown>): void {
  const { events } = run.ports
  if (!events.has('call:late')) return
  const tell = (ended: 'returned' | 'threw') => () => {
    if (run.ended) events.emit('call:late', { callId: run.request.callId, tool, ended })
  }
  work.then(tell('returned'), tell('threw'))
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
