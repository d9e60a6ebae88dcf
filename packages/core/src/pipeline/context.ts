import { type ChainResult, type ChainStep, type Json, type LogLevel, type Result, ToolError } from '@gantry/contract'
import type {
  Backend,
  BackendContext,
  FoundTools,
  InnerCalls,
  InnerSearchOptions,
  ProgramNesting,
  ProgressReport,
  ToolCallOptions,
  ToolChainOptions,
  ToolContext,
} from '../backends/backend.ts'
import type { EffectSink } from '../backends/program-journal.ts'
import { copyJson } from '../json/plain.ts'
import { createRedactor, type Redactor } from '../json/redact.ts'
import { shortestSecret } from '../json/secret-forms.ts'
import { refuse, unknownMembers } from '../options/options.ts'
import type { SecretRequest, SecretSource } from '../secrets/secret.ts'
import type { Span } from '../tracing/tracer.ts'
import { CallEffects, fileSinkOf } from './call-effects.ts'
import type { Run } from './run.ts'

const levels: ReadonlySet<unknown> = new Set<LogLevel>(['debug', 'info', 'warn', 'error'])
const isLevel = (text: unknown): text is LogLevel => levels.has(text)
const longestMessage = 10_000

/** The context of a tool. Each function is bound when it is first read, so that it can be destructured. */
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
      // An invalid progress value does not fail the tool.
      if (!Number.isFinite(report.progress)) return
      quietly(this.#run.report({ kind: 'progress', ...copyReport(this.#run, report) }))
    }
  }

  get log(): ToolContext['log'] {
    return (first: string, second?: Json, third?: Json) => {
      const named = isLevel(first) && typeof second === 'string'
      const level = named ? first : 'info'
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

/** Data of a log line. A value that is not JSON is replaced by its type, because a log line must not fail the tool. */
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

/** Reports do not delay a tool that does not stream, so an error of their reader is ignored. */
function quietly(work: void | Promise<void>): void {
  work?.catch(() => undefined)
}

/** State of an attempt that its inner calls share. */
interface Caller extends BackendContext {
  /** How many calls this attempt has made so far. */
  made: number
}

/**
 * The inner calls of a tool. Each runs through the pipeline with the same identity, policy and audit log, and has the
 * outer call as its parent. All nested calls share one budget of calls and depth, and are cancelled with the outer call.
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
      // A later attempt repeats these keys if the tool makes its calls in the same order.
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

  /** The executor's methods for inner calls. Throws when this call may make none. */
  #open(options: object, known: readonly string[]): InnerCalls {
    refuse('options of an inner call', unknownMembers(options, known, '', 'an option'), 'INPUT_INVALID')
    if (this.#run.ended) throw new ToolError('CANCELLED', 'The call that the tool served has ended.')
    if (this.#place.depthLeft < 0) throw exceeded('innerDepth', 'Inner calls are nested too deeply')
    const inner = this.#run.ports.inner?.()
    if (inner === undefined) throw new ToolError('INTERNAL', 'The call has no executor for inner calls.')
    return inner
  }

  #shared(caller: Caller, signal: AbortSignal | undefined) {
    return {
      identity: this.#run.request.identity,
      signal: this.#signal(signal),
      traceparent: caller.traceparent,
      effectSink: effectSinkOf(caller),
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

/** The effects of inner calls are effects of the outer call. */
function effectSinkOf(caller: Caller): EffectSink {
  return {
    send: (message) => caller.send(message),
    ...(caller.keepsFiles ? { keep: (file) => caller.attach(file) } : {}),
  }
}

function exceeded(limit: string, message: string): ToolError {
  const remedy = `raise limits.${limit}, or make fewer`
  return new ToolError('LIMIT_EXCEEDED', `${message}; ${remedy}.`, { details: { limit } })
}

/** Secrets of backend connections, which may occur in the answer to any call. */
export interface ConnectionSecrets {
  of(backend: Backend): readonly string[] | undefined
  /** The redactor; undefined while there are no secrets. Rebuilt only after a change, because building it is expensive. */
  redactor(backend: Backend): Redactor | undefined
  /** A configured secret is kept for good; a renewed token may be evicted by newer ones. */
  add(backend: Backend, value: string, kind: 'named' | 'passing'): void
}

/** How many renewed tokens, and characters of them, are kept per backend, so that redaction stays fast. */
const mostHeld = 64
const mostCharacters = 65_536

export function createConnectionSecrets(): ConnectionSecrets {
  const byBackend = new Map<Backend, readonly string[]>()
  const named = new Map<Backend, readonly string[]>()
  const passing = new Map<Backend, readonly string[]>()
  const redactors = new Map<Backend, Redactor>()
  return {
    of: (backend) => (byBackend.size === 0 ? undefined : byBackend.get(backend)),
    redactor(backend) {
      const values = byBackend.get(backend)
      if (values === undefined) return undefined
      const made = redactors.get(backend) ?? createRedactor({ values, keys: false })
      redactors.set(backend, made)
      return made
    },
    add(backend, value, kind) {
      const list = kind === 'named' ? named : passing
      const known = list.get(backend) ?? []
      if (known.includes(value)) return
      list.set(backend, kind === 'named' ? [...known, value] : newest([...known, value]))
      redactors.delete(backend)
      byBackend.set(backend, [...(named.get(backend) ?? []), ...(passing.get(backend) ?? [])])
    },
  }
}

/** The newest values within the limits, and always the newest one. */
function newest(values: readonly string[]): readonly string[] {
  const kept: string[] = []
  let characters = 0
  for (const value of values.toReversed()) {
    characters += value.length
    if (kept.length > 0 && (kept.length >= mostHeld || characters > mostCharacters)) break
    kept.unshift(value)
  }
  return kept
}

/** Fetches the secrets that a tool declares, right before it starts, and redacts them in all later output. */
export async function resolveSecrets(run: Run, names: readonly string[]): Promise<ToolContext['secrets']> {
  const values = new Map<string, string>()
  for (const name of names) values.set(name, await resolveSecret(run, name))
  const secrets: { [name: string]: string } = Object.create(null)
  for (const [name, value] of values) Object.defineProperty(secrets, name, { value, enumerable: false })
  return Object.freeze(secrets)
}

/** Fetches one secret for the caller of this run, and redacts it in all later output. */
export async function resolveSecret(run: Run, name: string): Promise<string> {
  const { request, ports, tool } = run
  const asking = { tool: tool?.entry.id ?? request.tool, identity: request.identity, signal: run.signal }
  const value = await run.within(fetchSecret(ports.secrets, name, asking))
  run.conceal([value])
  return value
}

/** Fetches a value that is long enough to be redacted. Throws SECRET_UNAVAILABLE when there is none. */
export async function fetchSecret(source: SecretSource, name: string, request: SecretRequest): Promise<string> {
  let value: unknown
  try {
    value = await source.get(name, request)
  } catch (error) {
    request.signal.throwIfAborted()
    throw unreadable(name, error)
  }
  if (typeof value === 'string' && value.length >= shortestSecret) return value
  throw new ToolError(
    'SECRET_UNAVAILABLE',
    `The secret ${name} is missing or shorter than ${shortestSecret} characters.`,
  )
}

/** Keeps the message of Gantry's own sources. Any other error may quote the secret, so only the secret's name is reported. */
function unreadable(name: string, error: unknown): ToolError {
  if (ToolError.is(error) && (error.code === 'SECRET_UNAVAILABLE' || error.code === 'CONFIG_INVALID')) {
    return new ToolError('SECRET_UNAVAILABLE', error.message)
  }
  const cause = new Error(error instanceof Error ? error.name : typeof error)
  return new ToolError('SECRET_UNAVAILABLE', `The secret ${name} could not be read.`, { cause })
}
