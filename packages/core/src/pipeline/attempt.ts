import type { JsonObject } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { traced } from '../tracing/traced.ts'
import { CallContext } from './context.ts'
import { drain, isGenerator } from './drain.ts'
import { failureOf } from './failure.ts'
import type { PreparedTool } from './prepare.ts'
import type { Target } from './resolve.ts'
import type { Run } from './run.ts'

/** Keeps what the call holds until the tool has really ended. */
export type Hold = (until: PromiseLike<unknown>) => void

/** One try. Anything asynchronous is waited for within the run's time; a synchronous answer needs no clock. */
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
  // What an earlier attempt measured says nothing of this one.
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
  // A backend may learn only from the answer's first bytes that it is a stream.
  return answer.then((value) =>
    isGenerator(value) ? drain(run, tool, value, (until) => leave(run, entry.id, until, hold)) : value,
  )
}

/** What outlives a call that is given up on: the slot it holds, and whoever wants to hear of its end. */
function leave(run: Run, tool: string, until: Promise<unknown>, hold: Hold | undefined): void {
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
