import { type ChainResult, type ChainStep, type Json, type LogLevel, type Result, ToolError } from '@gantry/contract'
import type {
  BackendContext,
  InnerSearchOptions,
  ProgressReport,
  ToolCallOptions,
  ToolChainOptions,
  ToolContext,
} from '../backends/backend.ts'
import type { FoundTools, InnerCalls, ProgramNesting } from '../backends/inner-calls.ts'
import type { WriteBack } from '../backends/program-journal.ts'
import { copyJson } from '../json/copy.ts'
import type { Span } from '../tracing/tracer.ts'
import { CallEffects, fileSinkOf } from './call-effects.ts'
import type { Run } from './run.ts'
import { resolveSecret } from './secrets.ts'

const levels: ReadonlySet<unknown> = new Set<LogLevel>(['debug', 'info', 'warn', 'error'])
const longestMessage = 10_000

/** What the tool sees of a run; each function is made when it is asked for, so that it can be taken off. */
export class CallContext implements Caller {
  readonly #run: Run
  readonly attempt: number
  made = 0
  readonly secrets: ToolContext['secrets']
  readonly span: Span | undefined

  constructor(run: Run, attempt: number, secrets: ToolContext['secrets'], span?: Span) {
    this.#run = run
    this.attempt = attempt
    this.secrets = secrets
    this.span = span
  }

  get callId(): string {
    return this.#run.request.callId
  }
  get tool(): string {
    return this.#run.tool?.entry.id ?? this.#run.request.tool
  }
  get fence(): number | undefined {
    return this.#run.request.fence
  }
  get identity(): ToolContext['identity'] {
    return this.#run.request.identity
  }
  get idempotencyKey(): string {
    return this.#run.request.idempotencyKey ?? this.#run.request.callId
  }
  get traceparent(): string | undefined {
    return this.span?.traceparent ?? this.#run.request.traceparent
  }
  get origin(): ToolContext['origin'] {
    return this.#run.request.origin
  }
  get floor(): BackendContext['floor'] {
    return this.#run.floor
  }
  get program(): BackendContext['program'] {
    return this.#run.request.program
  }
  get inner(): BackendContext['inner'] {
    return this.#run.ports.inner?.()
  }
  get place(): BackendContext['place'] {
    return this.#run.request.place
  }
  get signal(): AbortSignal {
    return this.#run.signal
  }

  get secret(): BackendContext['secret'] {
    return (name) => resolveSecret(this.#run, name)
  }

  get conceal(): BackendContext['conceal'] {
    return (value) => this.#run.conceal([value])
  }

  get measured(): BackendContext['measured'] {
    return (facts) => {
      if (!this.#run.ended) this.#run.measured = { ...this.#run.measured, ...facts }
    }
  }

  get progress(): ToolContext['progress'] {
    return (progress, total, message) => {
      const report: ProgressReport = typeof progress === 'object' ? progress : given(progress, total, message)
      // A wrong figure is not worth failing a tool for.
      if (!Number.isFinite(report.progress)) return
      quietly(this.#run.report({ kind: 'progress', ...copyReport(this.#run, report) }))
    }
  }

  get log(): ToolContext['log'] {
    return (first: string, second?: Json, third?: Json) => {
      const named = levels.has(first) && typeof second === 'string'
      const level = named ? (first as LogLevel) : 'info'
      const message = this.#run.shown(named ? second : String(first), longestMessage)
      const data = named ? third : second
      const shown = data === undefined ? {} : { data: loggable(data) }
      quietly(this.#run.report({ kind: 'log', level, message, ...shown }))
    }
  }

  get send(): ToolContext['send'] {
    return (message) => writtenOf(this.#run).send(message)
  }

  get attach(): ToolContext['attach'] {
    return (file) => writtenOf(this.#run).attach(file)
  }

  get run(): ToolContext['run'] {
    return async (tool, args, options) => callsOf(this.#run).run(this, tool, args, options)
  }

  get chain(): ToolContext['chain'] {
    return async (steps, options) => callsOf(this.#run).chain(this, steps, options)
  }

  get search(): ToolContext['search'] {
    return async (query, options) => callsOf(this.#run).search(query, options)
  }

  get artifacts(): BackendContext['artifacts'] {
    return this.#run.approvedArtifacts ?? this.#run.ports.artifacts
  }
  get keepsFiles(): boolean {
    return fileSinkOf(this.#run) !== undefined
  }
  get attachedBefore(): BackendContext['attachedBefore'] {
    return (artifact) => writtenOf(this.#run).attachedBefore(artifact)
  }

  get inject(): ToolContext['inject'] {
    return (tool) => writtenOf(this.#run).inject(tool)
  }
}

function writtenOf(run: Run): CallEffects {
  run.written ??= new CallEffects(run)
  return run.written
}

function callsOf(run: Run): ToolCalls {
  run.calls ??= new ToolCalls(run)
  return run.calls
}

/** Data for a log line; what is no JSON is named, because a log line is not worth failing a tool for. */
function loggable(data: unknown): Json {
  try {
    return copyJson(data, { convert: true, dropped: { count: 0 } })
  } catch {
    return '[not JSON]'
  }
}

function given(progress: number, total: number | undefined, message: string | undefined): ProgressReport {
  return { progress, ...(total === undefined ? {} : { total }), ...(message === undefined ? {} : { message }) }
}

function copyReport(run: Run, { progress, total, message }: ProgressReport): ProgressReport {
  const shown = typeof message === 'string' ? run.shown(message, longestMessage) : undefined
  return given(progress, Number.isFinite(total) ? total : undefined, shown)
}

/** Reports do not make a plain tool wait, so what their reader does with them is not the tool's concern. */
function quietly(work: void | Promise<void>): void {
  work?.catch(() => undefined)
}

/** What calls inside a tool need of the attempt that makes them. */
interface Caller extends BackendContext {
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
  readonly #place: ProgramNesting
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
  #open(options: object, known: readonly string[]): InnerCalls {
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
