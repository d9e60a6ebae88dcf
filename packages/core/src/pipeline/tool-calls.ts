import { type ChainResult, type ChainStep, type Result, ToolError } from '@gantry/contract'
import type { BackendContext, InnerSearchOptions, ToolCallOptions, ToolChainOptions } from '../backends/backend.ts'
import type { FoundTools, InnerDoors, ProgramPlace } from '../backends/inner-doors.ts'
import type { WriteBack } from '../backends/write-back.ts'
import type { Run } from './run.ts'

/** What calls inside a tool need of the attempt that makes them. */
export interface Caller extends BackendContext {
  /** How many calls this attempt has made so far. */
  made: number
}

/**
 * The calls that a tool makes while it serves one: each is a run of the pipeline in the name of the same caller, under the
 * same policy and on the same record, with the outer call as its parent. They share one budget of calls and of depth with
 * all that is around them, and end with the outer call.
 */
export class ToolCalls {
  readonly #run: Run
  readonly #place: ProgramPlace
  #left: number
  #count = 0

  constructor(run: Run) {
    const { request, ports } = run
    const around = request.place
    this.#run = run
    this.#left = ports.limits.innerCalls
    this.#place = {
      depthLeft: (around?.depthLeft ?? ports.limits.innerDepth) - 1,
      within: request.callId,
      unattended: true,
      takeCall: (count = 1) => {
        this.#left -= count
        if (this.#left < 0) throw exceeded('innerCalls', `A call may make ${ports.limits.innerCalls} calls inside`)
        around?.takeCall(count)
      },
    }
  }

  async run(caller: Caller, tool: string, args: unknown, options: ToolCallOptions = {}): Promise<Result> {
    const { timeoutMs, idempotencyKey, signal } = options
    const inner = this.#open(options, ['timeoutMs', 'idempotencyKey', 'signal'])
    this.#place.takeCall()
    caller.made += 1
    return inner.run(tool, args, {
      ...this.#shared(caller, signal),
      callId: this.#nextId(),
      // The same for the same call of a later attempt, as far as a tool makes its calls in one order.
      idempotencyKey: idempotencyKey ?? `${caller.idempotencyKey}.${caller.made}`,
      timeoutMs,
      program: undefined,
    })
  }

  async chain(caller: Caller, steps: readonly ChainStep[], options: ToolChainOptions = {}): Promise<ChainResult> {
    const inner = this.#open(options, ['input', 'signal'])
    return inner.chain(steps, {
      ...this.#shared(caller, options.signal),
      chainId: this.#nextId(),
      input: options.input,
      limits: undefined,
      onCall: () => undefined,
      around: undefined,
    })
  }

  async search(query: string, options: InnerSearchOptions = {}): Promise<FoundTools> {
    const inner = this.#open(options, ['limit', 'signal'])
    const { identity } = this.#run.request
    return inner.search(query, { identity, signal: this.#signal(options.signal), limit: options.limit })
  }

  /** The doors of the executor around, when this call may use them. */
  #open(options: object, known: readonly string[]): InnerDoors {
    const stray = Object.keys(options).find((key) => !known.includes(key))
    if (stray !== undefined) {
      const issues = [{ path: `/${stray}`, message: `is not an option; there are ${known.join(', ')}` }]
      throw new ToolError('INPUT_INVALID', `The option ${stray} ${issues[0]?.message}.`, { details: { issues } })
    }
    if (this.#run.ended) throw new ToolError('CANCELLED', 'The call that the tool served has ended.')
    if (this.#place.depthLeft < 0) throw exceeded('innerDepth', 'Calls stand too deep in one another')
    const inner = this.#run.ports.inner?.()
    if (inner === undefined) throw new ToolError('INTERNAL', 'There is no executor around this call.')
    return inner
  }

  #shared(caller: Caller, signal: AbortSignal | undefined) {
    return {
      identity: this.#run.request.identity,
      signal: this.#signal(signal),
      traceparent: caller.traceparent,
      writeBack: writeBackOf(caller),
      place: this.#place,
    }
  }

  #signal(own: AbortSignal | undefined): AbortSignal {
    return own === undefined ? this.#run.signal : AbortSignal.any([this.#run.signal, own])
  }

  #nextId(): string {
    this.#count += 1
    return `${this.#run.request.callId}.${this.#count}`
  }
}

/** What inner calls write back is what the outer call writes back. */
function writeBackOf(caller: Caller): WriteBack {
  return {
    send: (message) => caller.send(message),
    ...(caller.keepsFiles ? { keep: (file) => caller.attach(file) } : {}),
  }
}

function exceeded(limit: string, message: string): ToolError {
  const remedy = `raise limits.${limit}, or make fewer`
  return new ToolError('LIMIT_EXCEEDED', `${message}; ${remedy}.`, { details: { limit } })
}
