import { type Json, ToolError } from '@gantry/contract'
import { type CopyOptions, copyJson, JsonError, type JsonLimits, utf8Length } from '../json/plain.ts'
import type { PieceRedactor } from '../json/redact.ts'
import type { PreparedTool } from './lookup.ts'
import type { Run } from './run.ts'

/** How long a streaming tool may block the event loop. */
const longestTurnMs = 10

export type ToolGenerator = AsyncGenerator<unknown, unknown> | Generator<unknown, unknown>

/**
 * Pulls a streaming tool to its end. Each chunk is reported before the next is requested, so a slow reader applies
 * backpressure. `leave` is called when the run stops before the tool ends, with a promise of the tool's end. The output is
 * the return value of the generator, or its chunks when it returns nothing.
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

/** Runs the tool's `finally` blocks after its current step. They do not delay or change the call. */
async function close(generator: ToolGenerator): Promise<void> {
  try {
    await generator.return(undefined)
  } catch {
    // The call has its outcome, so errors of the cleanup are ignored.
  }
}

function plainChunk(value: unknown, options: CopyOptions): Json {
  // A promise is not a valid chunk, and its rejection must not crash the host.
  if (value instanceof Promise) value.catch(() => undefined)
  try {
    return copyJson(value ?? null, options)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new ToolError('OUTPUT_INVALID', `A chunk ${error.message} at ${error.path || 'its root'}.`, { cause: error })
  }
}

/** Yields to the event loop, because a tool that never awaits would block timers and signals. */
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

/** Reports chunks, and redacts a secret that is split over several of them. */
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
