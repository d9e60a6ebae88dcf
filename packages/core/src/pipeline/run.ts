import {
  type Content,
  type Isolation,
  type Json,
  type Report,
  type Result,
  ToolError,
  type Warning,
} from '@gantry/contract'
import type { Artifacts } from '../artifacts/artifact.ts'
import type { Backend, Measured } from '../backends/backend.ts'
import type { CatalogEntry, Viewer } from '../catalogs/catalog.ts'
import { createRedactor, type Redactor } from '../json/redact.ts'
import type { Deadlines, Wait, Waiter } from '../resilience/deadlines.ts'
import type { Span, Tracer } from '../tracing/tracer.ts'
import type { CallEffects } from './call-effects.ts'
import type { ToolCalls } from './context.ts'
import type { PreparedTool } from './lookup.ts'
import type { CallRequest, Ports } from './ports.ts'

const none: readonly never[] = Object.freeze([])
const nothing: readonly [readonly string[], undefined] = Object.freeze([none, undefined])

/**
 * # State of one call on its way through the stages
 *
 * - open → stopped: the call is cancelled or times out. The first reason wins.
 * - open or stopped → ended: the call has its outcome.
 *
 * Every wait goes through `within`, so that a stop ends it at once, even if the awaited work ignores the signal. The timer
 * and the listener on the caller's signal are created at the first wait: a synchronous tool costs neither.
 */
export class Run implements Waiter, Viewer {
  readonly request: CallRequest
  readonly ports: Ports
  readonly startedAt: number
  readonly startedMonotonic: number
  tool: PreparedTool | undefined
  backend: Backend | undefined
  /** Metadata from the backend, such as usage and runtime. */
  measured: Measured | undefined
  approvedBy: string | undefined
  /** The right by which the caller approved its own call. */
  approvedSelf: 'owner' | undefined
  /** The artifacts of callers, with the digests of approved ones verified. */
  approvedArtifacts: Artifacts | undefined
  /** The least isolation that the policy requires for a program. */
  floor: Isolation | undefined
  /** Records its stages while a tracer is set. */
  trace: RunTrace | undefined
  /** Whether the tool may have started. */
  begun = false
  ended = false
  /** Whether a chunk was sent: a retry would repeat it. */
  streamed = false
  timed = false
  attempts = 0
  output: Json = null
  content: readonly Content[] = none
  warnings: readonly Warning[] = none
  /** The effects of the tool; created on demand, because most tools have none. */
  written: CallEffects | undefined
  /** The inner calls of the tool; created at the first one. */
  calls: ToolCalls | undefined
  #controller: AbortController | undefined
  #stopped: ToolError | undefined
  #interrupt: ((reason: ToolError) => void) | undefined
  wait: Wait | undefined
  #late: ToolError | undefined
  #onAbort: (() => void) | undefined
  #secrets: readonly string[] = none
  #redactor: Redactor | undefined
  #redacts: readonly [own: readonly string[], ofBackend: readonly string[] | undefined] = nothing
  #armed = false
  #whenEnded: PromiseWithResolvers<void> | undefined

  constructor(request: CallRequest, ports: Ports) {
    this.request = request
    this.ports = ports
    this.startedMonotonic = ports.clock.monotonic()
    this.startedAt = ports.clock.now(this.startedMonotonic)
  }

  get stopped(): ToolError | undefined {
    return this.#stopped
  }

  /** Resolves when the run has its outcome. */
  get whenEnded(): Promise<void> {
    this.#whenEnded ??= Promise.withResolvers()
    if (this.ended) this.#whenEnded.resolve()
    return this.#whenEnded.promise
  }

  /** Redacts the secrets of this call and of the backend's connection; undefined while there are none. */
  get redactor(): Redactor | undefined {
    const { backend } = this
    const { connectionSecrets } = this.ports
    const ofBackend = backend && connectionSecrets.of(backend)
    if (this.#secrets === none) return backend && ofBackend && connectionSecrets.redactor(backend)
    if (this.#redacts[0] !== this.#secrets || this.#redacts[1] !== ofBackend) {
      this.#redacts = [this.#secrets, ofBackend]
      this.#redactor = createRedactor({ values: [...this.#secrets, ...(ofBackend ?? none)], keys: false })
    }
    return this.#redactor
  }

  /** All secrets known so far: those of this call, and those of the connections of all backends of its tool. */
  concealed(): readonly string[] {
    const { registry, connectionSecrets } = this.ports
    const ofBackends = this.tool?.entry.tool.backends.flatMap((binding) => {
      const backend = registry.find(binding)
      return backend === undefined ? [] : (connectionSecrets.of(backend) ?? [])
    })
    return [...new Set([...this.#secrets, ...(ofBackends ?? [])])]
  }

  /** Redacts these values in all later output. */
  conceal(values: readonly string[]): void {
    this.#secrets = [...new Set([...this.#secrets, ...values])]
  }

  /** Created on demand, because most tools do not read it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.ended || this.#stopped !== undefined) this.#controller.abort(this.#stopped ?? over)
      else this.#arm()
    }
    return this.#controller.signal
  }

  /** Stops the run early. The first reason wins. */
  stop(reason: ToolError): void {
    if (this.#stopped !== undefined || this.ended) return
    this.#stopped = reason
    this.#controller?.abort(reason)
    this.#interrupt?.(reason)
  }

  /** Throws when the run is stopped or its caller's signal is aborted. */
  check(): void {
    if (this.#stopped === undefined && this.request.signal?.aborted) this.#cancel()
    if (this.#stopped !== undefined) throw this.#stopped
  }

  /** Waits for work until the run is stopped. */
  within<T>(work: PromiseLike<T>): Promise<T> {
    this.#arm()
    return new Promise((resolve, reject) => {
      this.#interrupt = reject
      if (this.#stopped !== undefined) reject(this.#stopped)
      work.then(resolve, reject)
    })
  }

  /** Waits for an approval until a cancel or its own deadline. The timeout of the call starts anew afterwards. */
  async aside<T>(work: PromiseLike<T>, ms: number, late: ToolError): Promise<T> {
    this.#arm()
    this.#late = late
    this.ports.deadlines.add(this, ms)
    const answer = await this.within(work)
    this.#late = undefined
    this.ports.deadlines.add(this, this.timeoutMs())
    return answer
  }

  /** A text without secrets, truncated after the redaction, so that truncation cannot split a secret before it. */
  shown(text: string, limit: number): string {
    const { redactor } = this
    if (redactor === undefined) return text.slice(0, limit)
    const pieces = redactor.pieces()
    const part = text.slice(0, limit * 10 + redactor.reach)
    // The end of an incomplete text may be part of a secret, and is dropped.
    return (pieces.push(part) + (part.length === text.length ? pieces.end() : '')).slice(0, limit)
  }

  warn(warning: Warning): void {
    this.warnings = [...this.warnings, warning]
  }

  /** Forwards a report of the tool. Reports after the end are dropped. */
  report(report: Report): void | Promise<void> {
    if (this.ended || this.#stopped !== undefined) return
    const shown = this.redactor === undefined ? report : redactReport(report, this.redactor)
    if (this.ports.events.has('call:reported')) {
      const tool = this.tool?.entry.id ?? this.request.tool
      this.ports.events.emit('call:reported', { callId: this.request.callId, tool, report: shown })
    }
    return this.request.report?.(shown)
  }

  /** Releases timer and listeners; the signal is aborted for a tool that may still run. */
  end(well = false): void {
    this.ended = true
    if (!this.#armed) return
    this.ports.deadlines.delete(this)
    this.#whenEnded?.resolve()
    if (this.#onAbort !== undefined) this.request.signal?.removeEventListener('abort', this.#onAbort)
    if (this.#controller === undefined || this.#controller.signal.aborted) return
    // An earlier attempt may have used another backend with the same signal.
    if (!well || this.backend?.tidy !== true || this.attempts > 1) this.#controller.abort(over)
  }

  #arm(): void {
    if (this.#armed) return
    this.#armed = true
    const { signal } = this.request
    if (signal?.aborted) this.#cancel()
    else if (signal !== undefined) {
      this.#onAbort = () => this.#cancel()
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
    this.timed = true
    this.ports.deadlines.begin(this)
  }

  /** Called at the deadline of the call, or of an approval or audit write that it waits for. */
  expire(): void {
    this.stop(this.#late ?? new ToolError('TIMEOUT', `The call did not end within ${this.timeoutMs()} ms.`))
  }

  finds(entry: CatalogEntry): boolean {
    const { identity } = this.request
    // Fast path: most identities have no tool patterns, and most policies hide no tools.
    const free = identity.tools === undefined && this.ports.policy?.exists === undefined
    return free || this.ports.exists(identity, entry.tool)
  }

  sees(entry: CatalogEntry): boolean {
    return this.ports.visible(this.request.identity, entry)
  }

  timeoutMs(): number {
    const { limits } = this.ports
    const asked = this.request.timeoutMs ?? this.tool?.entry.tool.timeoutMs ?? limits.timeoutMs
    return Math.min(asked, limits.maxTimeoutMs)
  }

  /** A signal that aborts with a timeout (`AbortSignal.timeout`, a chain's deadline) makes the call time out, not cancelled. */
  #cancel(): void {
    const reason: unknown = this.request.signal?.reason
    const late =
      reason instanceof Error && (reason.name === 'TimeoutError' || (ToolError.is(reason) && reason.code === 'TIMEOUT'))
    if (late) this.stop(new ToolError('TIMEOUT', reason.message, { cause: reason }))
    else this.stop(new ToolError('CANCELLED', 'The caller cancelled the call.', { cause: reason }))
  }
}

/** Created once, because capturing a stack is the most expensive part of the end of a call. */
const over = Object.freeze(new ToolError('CANCELLED', 'The call has ended.'))

/** Redacts only the text of the tool, because a secret with the value `chunk` must not break the event. */
function redactReport(report: Report, redactor: Redactor): Report {
  if (report.kind === 'chunk') return { ...report, data: redactor.value(report.data) }
  const message = report.message === undefined ? {} : { message: redactor.text(report.message) }
  if (report.kind === 'progress') return { ...report, ...message }
  return { ...report, ...message, ...(report.data === undefined ? {} : { data: redactor.value(report.data) }) }
}

/** The stages of a call, by their names in its trace. */
type TracedStage =
  | 'lookup'
  | 'validate-input'
  | 'authorize'
  | 'resolve'
  | 'execute'
  | 'normalize'
  | 'validate-output'
  | 'record'

/**
 * The trace of one run: a span for the call, below it one for each stage, and below `execute` one for each attempt.
 * Stages are sequential: the start of one is the end of the one before.
 */
interface RunTrace {
  /** Begins a stage. `code` is the error that ended the stage before, if any. */
  stage(name: TracedStage, code?: string): void
  attempt(backend: Backend, count: number): Span
  end(result: Result): void
}

export function createRunTrace(tracer: Tracer, { traceparent, callId, identity }: CallRequest): RunTrace {
  const facts = { 'gantry.call_id': callId, 'gantry.tenant': identity.tenant }
  const call = tracer.start('gantry.call', traceparent, { facts })
  let stage: Span = call
  return {
    stage(name, code) {
      if (stage !== call) stage.end(code)
      stage = call.child(`call.${name}`)
    },
    attempt: ({ kind, name }, count) =>
      stage.child('call.attempt', {
        facts: { 'gantry.backend': `${kind}:${name}`, 'gantry.attempt': count },
        ...(kind === 'local' ? {} : { kind: 'client' }),
      }),
    end({ tool, status, error, attempts }) {
      if (stage !== call) stage.end()
      // Only a tool that was found is named, because an unknown id may be any text of the caller.
      if (tool !== undefined) call.note({ 'gantry.tool': tool.id, 'gantry.tool.version': tool.version })
      call.note({ 'gantry.status': status, 'gantry.attempts': attempts })
      call.end(error?.code)
    },
  }
}

/** The deadlines of calls. */
export interface RunDeadlines extends Deadlines<Run> {
  /** Starts the deadline of the call, counted from its start. */
  begin(run: Run): void
}

/** How many runs may be collected in one turn before they join a queue, so that ended ones can be garbage-collected. */
const mostNew = 64

/**
 * No timer fires before the current turn of the event loop ends, so a run joins a deadline queue only if it is still
 * waiting after that turn. A tool that only computes never does, which saves its call 7 %.
 */
export function createRunDeadlines(deadlines: Deadlines<Run>): RunDeadlines {
  let begun: Run[] = []
  let watched = false

  const join = (): void => {
    const runs = begun
    begun = []
    for (const run of runs) {
      if (!run.ended && run.wait === undefined) deadlines.add(run, run.timeoutMs(), run.startedMonotonic)
    }
  }
  const endTurn = (): void => {
    watched = false
    join()
  }
  return {
    begin(run) {
      if (begun.length >= mostNew) join()
      begun.push(run)
      if (watched) return
      watched = true
      process.nextTick(endTurn)
    },
    add: deadlines.add,
    delete(run) {
      if (run.wait !== undefined) deadlines.delete(run)
      else if (begun.at(-1) === run) begun.pop()
    },
    waiters() {
      join()
      return deadlines.waiters()
    },
  }
}
