import {
  type ArtifactRef,
  type JsonObject,
  type ProgramLanguage,
  type ProgramLimits,
  ToolError,
} from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Backend, BackendCall, BackendContext, Health, Measured, ToolContext } from '../backends/backend.ts'
import type { EffectSink } from '../backends/program-journal.ts'
import { createStepSlots } from '../chain/context.ts'
import { follow, onAbort } from '../resilience/abort.ts'
import { createSlots, type Slots } from '../resilience/slots.ts'
import type { Outcome, ProgramMessage } from '../runtimes/runtime.ts'
import type { RuntimesSource, SandboxRequest } from '../runtimes/runtimes.ts'
import { codeOf } from '../tracing/tracer.ts'
import { failureOf } from './failure.ts'
import { callsIn, createReporter, perform, type Reporter } from './gateway-handler.ts'
import { createGatewaySession, type GatewaySession } from './gateway-session.ts'
import { createBudget, programLimits, readProgramLimits, type SetLimits, sandboxLimits } from './limits.ts'

/**
 * Runs programs over tools: each in a fresh sandbox that reaches only the gateway of the executor, as the caller of the
 * program.
 * - Concurrency: any number of calls; each has a sandbox of its own.
 * - Cancellation: the signal of the call kills the sandbox and stops the inner calls.
 * - Errors: CODE_INVALID when nothing ran, CODE_FAILED for what the program did not catch, CODE_DIVERGED for one that
 *   differs from its journal, LIMIT_EXCEEDED and TIMEOUT; errors of a journal are thrown unchanged.
 * - Ownership: the creator of the runtimes closes them. `ceilings` bound the limits that a program may request.
 */
export function programBackend(runtimes: RuntimesSource, ceilings?: ProgramLimits): Backend {
  const slots = createSlots()
  return {
    kind: 'program',
    name: 'program',
    builtin: true,
    runsPrograms: true,
    enforces: ['floor'],
    health: (signal) => runtimesHealth(runtimes, signal),
    async explain({ args }, { floor, signal }) {
      const { code, language: asked, limits } = readArguments(args)
      const { language, named } = await prepare(code, asked)
      const least = floor === undefined ? {} : { least: floor }
      const confinement = { ...named, limits: sandboxLimits(programLimits(limits, ceilings)), ...least }
      return (await runtimes()).explain({ kind: 'code', language, gateway: true }, confinement, signal)
    },
    call: (call, context) => run(call, context, runtimes, slots, ceilings),
  }
}

/** One program, start to end: its standard output streams while it runs, and its return value is the output. */
async function* run(
  { args }: BackendCall,
  context: BackendContext,
  runtimes: RuntimesSource,
  slots: Slots,
  ceilings: ProgramLimits | undefined,
): AsyncGenerator<unknown, unknown> {
  const { code, language, limits: requested, check } = readArguments(args)
  const limits = programLimits(requested, ceilings)
  const reporter = createReporter(language)
  const feed = createFeed(context)
  const stop = stopWith(context.signal)
  const report = (facts: Measured, cut = false): void =>
    context.measured({ ...facts, program: reporter.report(feed.written().stdout, cut) })
  const leave = onAbort(stop.signal, () => report({}))
  try {
    const isChecked = check && !isResumed(context)
    const spentMs = isChecked ? await checked(code, language, limits, slots, context) : 0
    const program = await prepare(code, language)
    const session = sessionOf(context, limits, reporter, stop)
    const request = requestOf(program, without(limits, spentMs), session, feed, context)
    // The program does not see the span, because a replay must run the same way.
    const span = context.span?.child('sandbox')
    const work = runtimes()
      .then((ready) => ready.run(span === undefined ? request : { ...request, span }, stop.signal))
      .finally(feed.end)
    // The work is awaited below; this prevents an unhandled rejection before that.
    work.catch((error: unknown) => span?.end(codeOf(error)))
    yield* feed.chunks()
    const { outcome, runtime } = await work
    leave()
    const { usage, enforced, hit, value = null } = outcome
    // A program that a limit ended may not have reached the end of its journal, which is not a divergence.
    const diverged = hit === undefined ? session.end() : undefined
    const failure = diverged ?? failureOf(program.original(outcome), code)
    span?.note({ 'gantry.runtime': runtime.kind, 'gantry.isolation': runtime.isolation })
    span?.end(failure?.code)
    const measured = { ...usage, enforced, ...(hit === undefined ? {} : { hit }) }
    const failed = failure === undefined ? {} : { failure }
    report({ runtime, usage: measured, plain: true, ...failed }, outcome.stdout.truncated)
    return failure === undefined ? value : null
  } finally {
    stop.end()
  }
}

/** The arguments of a program, which fit the schema of its tool. */
function readArguments({ code, language = 'typescript', limits, check }: JsonObject) {
  return {
    code: String(code),
    language: languages.find((known) => known === language) ?? 'typescript',
    limits: readProgramLimits(limits),
    check: check === true,
  }
}

const languages: readonly ProgramLanguage[] = ['typescript', 'javascript', 'python', 'workflow']

/** Checks a program before it runs, and returns the time it took. The compiler is loaded on demand. */
async function checked(
  code: string,
  language: ProgramLanguage,
  { wallMs }: SetLimits,
  slots: Slots,
  { inner, identity, signal }: BackendContext,
): Promise<number> {
  const started = performance.now()
  const { checkProgram } = await import('./check.ts')
  if (inner !== undefined) await checkProgram(code, language, inner, { identity, signal, slots, wallMs })
  return performance.now() - started
}

/** The time of the check is deducted from the program's. */
function without(limits: SetLimits, spentMs: number): SetLimits {
  return { ...limits, wallMs: Math.max(1, Math.floor(limits.wallMs - spentMs)) }
}

/** A resumed program is not checked again: its tools may have changed since it began. */
function isResumed({ program: journal }: BackendContext): boolean {
  return journal !== undefined && (journal.resumed ?? journal.outcomes.length > 0)
}

/** The host's side of the program: its budgets, its gateway and its journal. */
function sessionOf(
  context: BackendContext,
  limits: SetLimits,
  reporter: Reporter,
  { signal, abort }: Stop,
): GatewaySession {
  const { inner } = context
  if (inner === undefined) throw new ToolError('INTERNAL', 'The program has no executor for inner calls.')
  const budget = createBudget(limits, context.place, abort)
  const performer = { context, inner, budget, limits, reporter, signal, effectSink: effectSinkOf(context) }
  return createGatewaySession({
    journal: context.program,
    signal,
    slots: createStepSlots(limits.parallel),
    admit(request) {
      if (request.kind === 'call') budget.takeCall()
      else budget.takeRequest()
      if (request.kind === 'chain' && Array.isArray(request.steps)) budget.takeSteps(inner.countSteps(request.steps))
    },
    perform: (number, request, names) => perform(performer, number, request, names),
    undone(number, request, outcome, recalled) {
      budget.takeCall(callsIn(outcome))
      if (request.kind === 'call' && outcome.kind === 'result') {
        reporter.called(number, request.tool, outcome.result, recalled)
      }
      if (request.kind === 'put' && outcome.kind === 'value' && context.keepsFiles && isArtifactRef(outcome.value)) {
        context.attachedBefore(outcome.value)
      }
    },
    stop: abort,
  })
}

function isArtifactRef(value: unknown): value is ArtifactRef {
  if (!isObject(value) || typeof value.bytes !== 'number') return false
  return [value.id, value.name, value.mimeType, value.digest].every(isText)
}

function requestOf(
  { language, code, named }: Prepared,
  limits: SetLimits,
  { gateway }: GatewaySession,
  feed: Feed,
  context: BackendContext,
): SandboxRequest {
  const { floor, program: journal } = context
  return {
    program: { kind: 'code', language, code },
    tenant: context.identity.tenant,
    gateway,
    ...named,
    limits: sandboxLimits(limits),
    onOutput: feed.output,
    onRuntime: (ran) => context.measured({ runtime: ran }),
    ...(floor === undefined ? {} : { least: floor }),
    ...(journal === undefined ? {} : { deterministic: { seed: journal.seed, nowMs: journal.startedMs } }),
  }
}

/** Effects of inner calls are effects of the program's call. */
function effectSinkOf(context: BackendContext): EffectSink {
  return {
    send: (message) => context.send(message),
    ...(context.keepsFiles ? { keep: (file) => context.attach(file) } : {}),
  }
}

interface Stop {
  readonly signal: AbortSignal
  abort(reason: unknown): void
  /** Cancels the running inner calls. */
  end(): void
}

/** Stops with the call, or on its own. */
function stopWith(call: AbortSignal): Stop {
  const { signal, abort, leave } = follow(call)
  return {
    signal,
    abort,
    end() {
      leave()
      abort(ended)
    },
  }
}

/** Frozen and created once, because creating an error captures the stack. */
const ended = Object.freeze(new ToolError('CANCELLED', 'The program has ended.'))

/** A program prepared for its runtime. */
interface Prepared {
  readonly language: 'javascript' | 'typescript' | 'python'
  readonly code: string
  /** The only runtime with a gateway in this language; for Python selection decides, as for every program. */
  readonly named: { readonly runtime?: 'wasm' }
  /** The outcome, with the positions of a fault in the author's source. */
  original(outcome: Outcome): Outcome
}

/** Prepares a program for its runtime. Throws CODE_INVALID with the position. */
async function prepare(code: string, language: ProgramLanguage): Promise<Prepared> {
  const original = (outcome: Outcome): Outcome => outcome
  if (language === 'python') return { language, code, named: {}, original }
  if (language !== 'workflow') return { language, code, named: { runtime: 'wasm' }, original }
  const { translateWorkflow } = await import('./workflow/translate.ts')
  const translated = translateWorkflow(code)
  return {
    language: 'javascript',
    code: translated.code,
    named: { runtime: 'wasm' },
    original: (outcome) =>
      outcome.fault === undefined ? outcome : { ...outcome, fault: translated.original(outcome.fault) },
  }
}

/** A piece of a program's output, as a chunk of the stream. */
export interface OutputChunk {
  readonly stream: 'stdout' | 'stderr'
  readonly text: string
}

/** Turns the output callbacks of a sandbox into an iterable. */
export interface Feed {
  output(stream: 'stdout' | 'stderr', bytes: Uint8Array): void
  message(message: ProgramMessage): void
  end(): void
  /** The output so far. */
  written(): { readonly stdout: string; readonly stderr: string }
  /** The chunks in order, until the end. */
  chunks(): AsyncGenerator<OutputChunk, void>
}

/** Buffers pieces for a slow reader; the limits of the sandbox bound the buffer. */
export function createFeed(context: Pick<ToolContext, 'progress' | 'log'>): Feed {
  const waiting: OutputChunk[] = []
  const all = { stdout: '', stderr: '' }
  const decoders = {
    stdout: new TextDecoder('utf-8', { ignoreBOM: true }),
    stderr: new TextDecoder('utf-8', { ignoreBOM: true }),
  }
  let ended = false
  let wake: (() => void) | undefined
  const push = (stream: 'stdout' | 'stderr', text: string): void => {
    if (text === '') return
    all[stream] += text
    const last = waiting.at(-1)
    if (last?.stream === stream) waiting[waiting.length - 1] = { stream, text: last.text + text }
    else waiting.push({ stream, text })
    wake?.()
  }
  return {
    output: (stream, bytes) => push(stream, decoders[stream].decode(bytes, { stream: true })),
    message(message) {
      if (message.kind === 'log') context.log(message.message)
      else {
        const { kind: _kind, ...report } = message
        context.progress(report)
      }
    },
    end() {
      ended = true
      for (const stream of ['stdout', 'stderr'] as const) push(stream, decoders[stream].decode())
      wake?.()
    },
    written: () => ({ ...all }),
    async *chunks() {
      while (true) {
        const chunk = waiting.shift()
        if (chunk !== undefined) yield chunk
        else if (ended) return
        else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    },
  }
}

/** Up when one of the runtimes can run a program. Each runtime is probed once per process, including its isolation. */
export async function runtimesHealth(runtimes: RuntimesSource, signal: AbortSignal): Promise<Health> {
  const all = await (await runtimes()).list(signal)
  const works = all.some(({ available, isolation }) => available && isolation !== 'none')
  if (works) return { status: 'up' }
  return { status: 'down', message: 'No isolating runtime is available; run `gantry doctor` for the reasons.' }
}
