import { type Json, ToolError } from '@gantry/contract'
import { type CopyOptions, copyJson } from '../json/copy.ts'
import { JsonError, type JsonLimits, utf8Length } from '../json/limits.ts'
import type { PieceRedactor } from '../json/redact.ts'
import type { PreparedTool } from './prepare.ts'
import type { Run } from './run.ts'

/** How long a streaming tool may keep the process to itself. */
const longestTurnMs = 10

type ToolGenerator = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>

/** Whether a tool answered with a generator; other iterables are values. */
export function isGenerator(value: unknown): value is ToolGenerator {
  if (typeof value !== 'object' || value === null) return false
  const tag: unknown = (value as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag]
  return tag === 'AsyncGenerator' || tag === 'Generator'
}

/**
 * Pulls a streaming tool to its end. Each chunk is reported before the next is asked for, so a slow reader slows the
 * tool. `leave` is told when the tool was left before its end, and when it has really ended. The output is what the generator returns; when it returns nothing, the chunks are the output.
 */
export async function drain(
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
