import { type ArtifactRef, type ProgramLanguage, type ProgramLimits, ToolError } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext, Measured } from '../backends/backend.ts'
import type { WriteBack } from '../backends/program-journal.ts'
import { createFeed, type Feed, runtimesHealth } from '../backends/runtime-support.ts'
import { follow } from '../resilience/abort.ts'
import { createSlots as createTurns, type Slots as Turns } from '../resilience/slots.ts'
import type { Outcome } from '../runtimes/runtime.ts'
import type { RuntimesSource, SandboxRequest } from '../runtimes/runtimes.ts'
import { codeOf } from '../tracing/tracer.ts'
import { failureOf } from './failure.ts'
import { callsIn, createReporter, perform, type Reporter } from './gateway-handler.ts'
import { createGatewaySession, createSlots, type GatewaySession } from './gateway-session.ts'
import { createBudget, programLimits, type SetLimits, sandboxLimits } from './limits.ts'

/** The arguments of a program, as its tool's schema lets them through. */
interface ProgramArguments {
  readonly code: string
  readonly language?: ProgramLanguage
  readonly limits?: ProgramLimits
  readonly check?: boolean
}

/**
 * Runs programs over tools: each in a fresh sandbox that reaches nothing but the doors of the executor around it, in the
 * name of the caller of the program.
 * - Concurrency: any number of calls; each has a sandbox of its own.
 * - Cancellation: the signal of the call kills the sandbox and stops the inner calls.
 * - Errors: CODE_INVALID when nothing ran, CODE_FAILED for what the program did not catch, CODE_DIVERGED for one that does
 *   not fit its journal, LIMIT_EXCEEDED and TIMEOUT; what a journal rejects with is thrown as it is.
 * - Ownership: whoever made the runtimes closes them. `ceilings` bound the limits that a program may ask for.
 */
export function programBackend(runtimes: RuntimesSource, ceilings?: ProgramLimits): Backend {
  const turns = createTurns()
  return {
    kind: 'program',
    name: 'program',
    builtin: true,
    runsPrograms: true,
    enforces: ['floor'],
    health: (signal) => runtimesHealth(runtimes, signal),
    call: (call, context) => run(call, context, runtimes, turns, ceilings),
  }
}

/** One program, start to end: what it prints streams while it runs, and what it returns is the answer. */
async function* run(
  { args }: BackendCall,
  context: BackendContext,
  runtimes: RuntimesSource,
  turns: Turns,
  ceilings: ProgramLimits | undefined,
): AsyncGenerator<unknown, unknown> {
  const { code, language = 'typescript', limits: asked, check } = args as unknown as ProgramArguments
  const limits = programLimits(asked, ceilings)
  const reporter = createReporter(language)
  const feed = createFeed(context)
  const stop = stopWith(context.signal)
  const tell = (facts: Measured, cut = false): void =>
    context.measured({ ...facts, program: reporter.report(feed.written().stdout, cut) })
  const tellPartial = (): void => tell({})
  stop.signal.addEventListener('abort', tellPartial, { once: true })
  try {
    const isChecked = check === true && !isResumed(context)
    const spentMs = isChecked ? await checked(code, language, limits, turns, context) : 0
    const program = await prepare(code, language)
    const dialogue = dialogueOf(context, limits, reporter, stop)
    const request = requestOf(program, without(limits, spentMs), dialogue, feed, context)
    // A program is told nothing of it, because it must run the same way when it runs again.
    const span = context.span?.child('sandbox')
    const work = runtimes()
      .then((ready) => ready.run(span === undefined ? request : { ...request, span }, stop.signal))
      .finally(feed.end)
    // The work is waited for below; this keeps a failure before that from counting as unhandled.
    work.catch((error: unknown) => span?.end(codeOf(error)))
    yield* feed.chunks()
    const { outcome, runtime } = await work
    stop.signal.removeEventListener('abort', tellPartial)
    const { usage, enforced, hit, value = null } = outcome
    // One that a limit ended did not come to the end of its journal, and says nothing by that.
    const diverged = hit === undefined ? dialogue.end() : undefined
    const failure = diverged ?? failureOf(program.original(outcome), code)
    span?.note({ 'gantry.runtime': runtime.kind, 'gantry.isolation': runtime.isolation })
    span?.end(failure?.code)
    const measured = { ...usage, enforced, ...(hit === undefined ? {} : { hit }) }
    const failed = failure === undefined ? {} : { failure }
    tell({ runtime, usage: measured, plain: true, ...failed }, outcome.stdout.truncated)
    return failure === undefined ? value : null
  } finally {
    stop.end()
  }
}

/** Checks a program before anything of it runs, and tells how long it took; the compiler is loaded when it is needed. */
async function checked(
  code: string,
  language: ProgramLanguage,
  { wallMs }: SetLimits,
  turns: Turns,
  { inner, identity, signal }: BackendContext,
): Promise<number> {
  const started = performance.now()
  const { checkProgram } = await import('./check.ts')
  if (inner !== undefined) await checkProgram(code, language, inner, { identity, signal, turns, wallMs })
  return performance.now() - started
}

/** What the check took of the program's time is gone. */
function without(limits: SetLimits, spentMs: number): SetLimits {
  return { ...limits, wallMs: Math.max(1, Math.floor(limits.wallMs - spentMs)) }
}

/** One that has begun goes on, whatever became meanwhile of the tools that it was checked against. */
function isResumed({ program: journal }: BackendContext): boolean {
  return journal !== undefined && (journal.resumed ?? journal.outcomes.length > 0)
}

/** The host's side of the program: its budgets, its doors and its journal. */
function dialogueOf(
  context: BackendContext,
  limits: SetLimits,
  reporter: Reporter,
  { signal, abort }: Stop,
): GatewaySession {
  const { inner } = context
  if (inner === undefined) throw new ToolError('INTERNAL', 'There is no executor around this program.')
  const budget = createBudget(limits, context.place, abort)
  const performer = { context, inner, budget, limits, reporter, signal, writeBack: writeBackOf(context) }
  return createGatewaySession({
    journal: context.program,
    signal,
    slots: createSlots(limits.parallel),
    admit(asked) {
      if (asked.kind === 'call') budget.takeCall()
      else budget.takeRequest()
      if (asked.kind === 'chain' && Array.isArray(asked.steps)) budget.takeSteps(inner.countSteps(asked.steps))
    },
    perform: (number, asked, names) => perform(performer, number, asked, names),
    undone(number, asked, outcome, recalled) {
      budget.takeCall(callsIn(outcome))
      if (asked.kind === 'call' && outcome.kind === 'result') {
        reporter.called(number, asked.tool, outcome.result, recalled)
      }
      if (asked.kind === 'put' && outcome.kind === 'value' && context.keepsFiles) {
        context.attachedBefore(outcome.value as unknown as ArtifactRef)
      }
    },
    stop: abort,
  })
}

function requestOf(
  { language, code, runtime }: Prepared,
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
    runtime,
    limits: sandboxLimits(limits),
    onOutput: feed.output,
    onRuntime: (ran) => context.measured({ runtime: ran }),
    ...(floor === undefined ? {} : { least: floor }),
    ...(journal === undefined ? {} : { deterministic: { seed: journal.seed, nowMs: journal.startedMs } }),
  }
}

/** What inner calls write back is what the program writes back. */
function writeBackOf(context: BackendContext): WriteBack {
  return {
    send: (message) => context.send(message),
    ...(context.keepsFiles ? { keep: (file) => context.attach(file) } : {}),
  }
}

interface Stop {
  readonly signal: AbortSignal
  abort(reason: unknown): void
  /** Stops what is left of the inner calls. */
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
      abort(over)
    },
  }
}

/** Frozen and made once, because an error takes note of the stack. */
const over = Object.freeze(new ToolError('CANCELLED', 'The program has ended.'))

/** A program as its runtime takes it. */
interface Prepared {
  readonly language: 'javascript' | 'typescript' | 'python'
  readonly code: string
  /** The kind of runtime that has the gateway for this language. */
  readonly runtime: 'wasm' | 'process'
  /** How it ended, with the places of a fault in what the author wrote. */
  original(outcome: Outcome): Outcome
}

/** Makes what the runtimes know of a program. Throws CODE_INVALID with its place. */
async function prepare(code: string, language: ProgramLanguage): Promise<Prepared> {
  const original = (outcome: Outcome): Outcome => outcome
  if (language === 'python') return { language, code, runtime: 'process', original }
  if (language !== 'workflow') return { language, code, runtime: 'wasm', original }
  const { translateWorkflow } = await import('./workflow/translate.ts')
  const translated = translateWorkflow(code)
  return {
    language: 'javascript',
    code: translated.code,
    runtime: 'wasm',
    original: (outcome) =>
      outcome.fault === undefined ? outcome : { ...outcome, fault: translated.original(outcome.fault) },
  }
}
