import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { ToolContext } from '../backends/backend.ts'
import { type CopyOptions, copyJson } from '../json/copy.ts'
import { isPromiseLike } from '../json/kinds.ts'
import { JsonError, type JsonLimits, utf8Length } from '../json/limits.ts'
import type { PieceRedactor } from '../json/redact.ts'
import { traced } from '../tracing/tracer.ts'
import { CallContext } from './context.ts'
import type { PreparedTool } from './prepare.ts'
import type { Target } from './resolve.ts'
import { failureOf } from './result.ts'
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

/** How long a streaming tool may keep the process to itself. */
const longestTurnMs = 10

type ToolGenerator = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>

/** Whether a tool answered with a generator; other iterables are values. */
function isGenerator(value: unknown): value is ToolGenerator {
  if (typeof value !== 'object' || value === null) return false
  const tag: unknown = (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag]
  return tag === 'AsyncGenerator' || tag === 'Generator'
}

/**
 * Pulls a streaming tool to its end. Each chunk is reported before the next is asked for, so a slow reader slows the
 * tool. `leave` is told when the tool was left before its end, and when it has really ended. The output is what the generator returns; when it returns nothing, the chunks are the output.
 */
async function drain(
  run: Run,
  { resultCopy }: PreparedTool,
  generator: ToolGenerator,
  leave: (until: Promise<unknown>) => void,
): Promise<unknown> {
  const kept = new KeptChunks(resultCopy.limits)
  const shown = new ShownChunks(run)
  const breath = new Breath(run)
  let done = false
  try {
    while (true) {
      await breath.take()
      const step = await run.within(Promise.resolve(generator.next()))
      if (step.done === true) {
        done = true
        await shown.end()
        return step.value === undefined ? kept.output() : step.value
      }
      const data = plainChunk(step.value, resultCopy)
      kept.add(data)
      await shown.add(data)
    }
  } finally {
    if (!done) leave(close(generator))
  }
}

/** Lets the tool's `finally` blocks run, once its current step has ended; they may not hold up or change the call. */
async function close(generator: ToolGenerator): Promise<void> {
  try {
    await generator.return(undefined)
  } catch {
    // The call has its outcome; what the tool throws while it cleans up is its own affair.
  }
}

function plainChunk(value: unknown, options: CopyOptions): Json {
  // A promise is no chunk, and what becomes of it must not end the host.
  if (value instanceof Promise) value.catch(() => undefined)
  try {
    return copyJson(value ?? null, options)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new ToolError('OUTPUT_INVALID', `A chunk ${error.message} at ${error.path || 'its root'}.`, { cause: error })
  }
}

/** Lets timers and signals have their turn, which a tool that yields without ever waiting would keep from them. */
class Breath {
  readonly #run: Run
  #last: number

  constructor(run: Run) {
    this.#run = run
    this.#last = run.ports.clock.monotonic()
  }

  async take(): Promise<void> {
    const now = this.#run.ports.clock.monotonic()
    if (now - this.#last < longestTurnMs) return
    await this.#run.within(new Promise((resolve) => setImmediate(resolve)))
    this.#last = this.#run.ports.clock.monotonic()
  }
}

/** Reports chunks, and keeps a secret that is split over several of them from showing. */
class ShownChunks {
  readonly #run: Run
  readonly #pieces: PieceRedactor | undefined

  constructor(run: Run) {
    this.#run = run
    this.#pieces = run.redactor?.pieces()
  }

  async add(data: Json): Promise<void> {
    if (this.#pieces === undefined) return this.#report(data)
    if (typeof data === 'string') return this.#reportText(this.#pieces.push(data))
    await this.end()
    return this.#report(data)
  }

  async end(): Promise<void> {
    await this.#reportText(this.#pieces?.end() ?? '')
  }

  async #reportText(text: string): Promise<void> {
    if (text !== '') await this.#report(text)
  }

  async #report(data: Json): Promise<void> {
    this.#run.streamed = true
    const read = this.#run.report({ kind: 'chunk', data })
    if (read !== undefined) await this.#run.within(read)
  }
}

/** Chunks kept for a generator that returns nothing, up to the size a result may have. */
class KeptChunks {
  readonly #limit: number
  readonly #chunks: Json[] = []
  #bytes = 0

  constructor(limits: JsonLimits) {
    this.#limit = limits.bytes
  }

  add(data: Json): void {
    this.#bytes += typeof data === 'string' ? utf8Length(data) : JSON.stringify(data).length
    if (this.#bytes <= this.#limit) this.#chunks.push(data)
    else this.#chunks.length = 0
  }

  output(): Json {
    if (this.#bytes > this.#limit) {
      throw new ToolError('RESULT_TOO_LARGE', `The chunks are over ${this.#limit} bytes; return a summary instead.`)
    }
    const allText = this.#chunks.length > 0 && this.#chunks.every((chunk) => typeof chunk === 'string')
    return allText ? this.#chunks.join('') : this.#chunks
  }
}
