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
import type { Wait, Waiter } from '../resilience/deadlines.ts'
import type { Span, Tracer } from '../tracing/tracer.ts'
import type { CallEffects } from './call-effects.ts'
import type { ToolCalls } from './context.ts'
import type { CallRequest, Ports } from './ports.ts'
import type { PreparedTool } from './prepare.ts'

const none: readonly never[] = Object.freeze([])
const nothing: readonly [readonly string[], undefined] = Object.freeze([none, undefined])

/**
 * The state of one call while it passes through the stages.
 *
 * A run is open until it is *stopped* (cancelled or out of time: the first reason wins and stays) or *ended* (it has
 * its outcome). Everything the run waits for goes through `within`, so that a stop ends the wait at once, whether or
 * not the thing waited for cares. The timer and the listener on the caller's signal are set up at the first wait: a
 * tool that answers synchronously costs neither.
 */
export class Run implements Waiter, Viewer {
  readonly request: CallRequest
  readonly ports: Ports
  readonly startedAt: number
  readonly startedMonotonic: number
  tool: PreparedTool | undefined
  backend: Backend | undefined
  /** What the backend said of the run besides its output. */
  measured: Measured | undefined
  approvedBy: string | undefined
  /** By which right the caller approved its own call. */
  approvedSelf: 'owner' | undefined
  /** Files of callers in which those that the approved arguments name have the approved content, or none. */
  approvedArtifacts: Artifacts | undefined
  /** The least isolation that the policy demands of a program. */
  floor: Isolation | undefined
  /** Where its stages are noted, when somebody traces. */
  trace: RunTrace | undefined
  /** Whether a tool may have begun to act. */
  begun = false
  ended = false
  /** Whether a chunk went out: a repeat would send it twice. */
  streamed = false
  timed = false
  attempts = 0
  output: Json = null
  content: readonly Content[] = none
  warnings: readonly Warning[] = none
  /** What the tool wrote back to its caller; most tools write nothing back. */
  written: CallEffects | undefined
  /** The calls that the tool makes, once it makes one. */
  calls: ToolCalls | undefined
  #controller: AbortController | undefined
  #stopped: ToolError | undefined
  #interrupt: ((reason: ToolError) => void) | undefined
  wait: Wait | undefined
  #late: ToolError | undefined
  #onAbort: (() => void) | undefined
  #secrets: readonly string[] = none
  #redactor: Redactor | undefined
  #redacts: readonly [own: readonly string[], held: readonly string[] | undefined] = nothing
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

  /** Takes out the secrets of this call and those of the backend's own connection; undefined while there are none. */
  get redactor(): Redactor | undefined {
    const held = this.backend === undefined ? undefined : this.ports.held.of(this.backend)
    if (this.#secrets === none) return held && this.ports.held.redactor(this.backend as Backend)
    if (this.#redacts[0] !== this.#secrets || this.#redacts[1] !== held) {
      this.#redacts = [this.#secrets, held]
      this.#redactor = createRedactor({ values: [...this.#secrets, ...(held ?? none)], keys: false })
    }
    return this.#redactor
  }

  /** The secrets that are known now: those of this call, and those of the connections of all backends of its tool. */
  concealed(): readonly string[] {
    const { registry, held } = this.ports
    const ofBackends = this.tool?.entry.tool.backends.flatMap((binding) => {
      const backend = registry.find(binding)
      return backend === undefined ? [] : (held.of(backend) ?? [])
    })
    return [...new Set([...this.#secrets, ...(ofBackends ?? [])])]
  }

  /** Keeps these values out of everything that leaves from here on. */
  conceal(values: readonly string[]): void {
    this.#secrets = [...new Set([...this.#secrets, ...values])]
  }

  /** Made when first asked for, because most tools never look at it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.ended || this.#stopped !== undefined) this.#controller.abort(this.#stopped ?? over)
      else this.#arm()
    }
    return this.#controller.signal
  }

  /** Ends the run before its time; the first reason wins. */
  stop(reason: ToolError): void {
    if (this.#stopped !== undefined || this.ended) return
    this.#stopped = reason
    this.#controller?.abort(reason)
    this.#interrupt?.(reason)
  }

  /** Throws when the run is stopped, or its caller already gave up. */
  check(): void {
    if (this.#stopped === undefined && this.request.signal?.aborted) this.#cancel()
    if (this.#stopped !== undefined) throw this.#stopped
  }

  /** Waits for work, but no longer than the run may last. */
  within<T>(work: PromiseLike<T>): Promise<T> {
    this.#arm()
    return new Promise((resolve, reject) => {
      this.#interrupt = reject
      if (this.#stopped !== undefined) reject(this.#stopped)
      work.then(resolve, reject)
    })
  }

  /** Waits for a person: cancel ends it, and a clock of its own, after which the call's time starts anew. */
  async aside<T>(work: PromiseLike<T>, ms: number, late: ToolError): Promise<T> {
    this.#arm()
    this.#late = late
    this.ports.deadlines.add(this, ms)
    const answer = await this.within(work)
    this.#late = undefined
    this.ports.deadlines.add(this, this.timeoutMs())
    return answer
  }

  /** A text as it may leave: without secrets, then cut, so that a cut cannot hide a secret from the search for it. */
  shown(text: string, limit: number): string {
    const { redactor } = this
    if (redactor === undefined) return text.slice(0, limit)
    const pieces = redactor.pieces()
    const part = text.slice(0, limit * 10 + redactor.reach)
    // The end of what is not the whole text may be half a secret, and is not shown.
    return (pieces.push(part) + (part.length === text.length ? pieces.end() : '')).slice(0, limit)
  }

  warn(warning: Warning): void {
    this.warnings = [...this.warnings, warning]
  }

  /** Hands on what the tool reports; late reports go nowhere. */
  report(report: Report): void | Promise<void> {
    if (this.ended || this.#stopped !== undefined) return
    const shown = this.redactor === undefined ? report : redactReport(report, this.redactor)
    if (this.ports.events.has('call:reported')) {
      const tool = this.tool?.entry.id ?? this.request.tool
      this.ports.events.emit('call:reported', { callId: this.request.callId, tool, report: shown })
    }
    return this.request.report?.(shown)
  }

  /** Lets go of timer and listeners; a tool that may still run is told through its signal. */
  end(well = false): void {
    this.ended = true
    if (!this.#armed) return
    this.ports.deadlines.delete(this)
    this.#whenEnded?.resolve()
    if (this.#onAbort !== undefined) this.request.signal?.removeEventListener('abort', this.#onAbort)
    if (this.#controller === undefined || this.#controller.signal.aborted) return
    // An earlier attempt may have gone to another backend, which had the same signal.
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

  /** Called when the time is over: the call's own, or that of whoever is asked aside. */
  expire(): void {
    this.stop(this.#late ?? new ToolError('TIMEOUT', `The call did not end within ${this.timeoutMs()} ms.`))
  }

  finds(entry: CatalogEntry): boolean {
    return this.ports.exists(this.request.identity, entry.tool)
  }

  sees(entry: CatalogEntry): boolean {
    return this.ports.visible(this.request.identity, entry)
  }

  timeoutMs(): number {
    const { limits } = this.ports
    const asked = this.request.timeoutMs ?? this.tool?.entry.tool.timeoutMs ?? limits.timeoutMs
    return Math.min(asked, limits.maxTimeoutMs)
  }

  /** A signal that aborts because a time is over (`AbortSignal.timeout`, a chain's deadline) is a timeout, not a cancel. */
  #cancel(): void {
    const reason: unknown = this.request.signal?.reason
    const late =
      reason instanceof Error && (reason.name === 'TimeoutError' || (ToolError.is(reason) && reason.code === 'TIMEOUT'))
    if (late) this.stop(new ToolError('TIMEOUT', reason.message, { cause: reason }))
    else this.stop(new ToolError('CANCELLED', 'The caller cancelled the call.', { cause: reason }))
  }
}

/** Made once, because an error takes note of the stack, which costs more than all else at the end of a call. */
const over = Object.freeze(new ToolError('CANCELLED', 'The call has ended.'))

/** Only what a tool wrote is searched for secrets; a secret that happens to be called `chunk` must not break the event. */
function redactReport(report: Report, redactor: Redactor): Report {
  if (report.kind === 'chunk') return { ...report, data: redactor.value(report.data) }
  const message = report.message === undefined ? {} : { message: redactor.text(report.message) }
  if (report.kind === 'progress') return { ...report, ...message }
  return { ...report, ...message, ...(report.data === undefined ? {} : { data: redactor.value(report.data) }) }
}

/** The stages of a call, as they are named in its trace. */
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
 * Stages follow each other, so that the beginning of one is the end of the one before.
 */
interface RunTrace {
  /** Begins a stage; the code says what ended the one before, when it did not end well. */
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
      // Only a tool that was found is named: what a caller called it may be anything.
      if (tool !== undefined) call.note({ 'gantry.tool': tool.id, 'gantry.tool.version': tool.version })
      call.note({ 'gantry.status': status, 'gantry.attempts': attempts })
      call.end(error?.code)
    },
  }
}
