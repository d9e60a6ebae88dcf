import type { ToolError } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import { createFeed, runtimesHealth } from '@gantry/core/internal/backends/runtime-support'
import type { Egress } from '@gantry/core/internal/egress/egress'
import type { RuntimesSource, SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { codeOf } from '@gantry/core/internal/tracing/tracer'
import type { SandboxRuntimes } from '../runtimes/options.ts'
import { readBinding, type SandboxedPlan } from './binding.ts'
import { answerOf, lossWarnings } from './outcome.ts'
import { requestOf } from './request.ts'

/**
 * Runs tools that are programs in a sandbox.
 * - Concurrency: any number of calls; each has a sandbox of its own.
 * - Cancellation: the signal of the call kills everything in its sandbox.
 * - Errors: INPUT_INVALID for arguments that no program can be made of, RUNTIME_UNAVAILABLE and SANDBOX_INIT_FAILED
 *   when nothing ran, LIMIT_EXCEEDED and TIMEOUT with the output so far.
 * - Ownership: the creator of the runtimes closes them.
 */
export function sandboxedBackend(runtimes: RuntimesSource<SandboxRuntimes>): Backend {
  const plans = new WeakMap<object, SandboxedPlan>()
  let egress: Egress | undefined
  const planOf = ({ binding, tool }: BackendCall): SandboxedPlan => {
    const known = plans.get(binding)
    if (known !== undefined) return known
    const plan = readBinding(binding, tool)
    plans.set(binding, plan)
    return plan
  }
  return {
    kind: 'sandboxed',
    name: 'sandboxed',
    builtin: true,
    runsPrograms: true,
    enforces: ['profile', 'runtime', 'egress', 'floor'],
    attach(host) {
      egress = host.egress
    },
    check: (binding, tool) => void readBinding(binding, tool),
    isFault: didNotStart,
    health: (signal) => runtimesHealth(runtimes, signal),
    call: (call, context) => run({ plan: planOf(call), call, egress, runtimes, context }),
  }
}

/**
 * Whether a sandbox did not start. How a program ends, or that it takes longer than its call may, is its own affair, and
 * so is a demand that no runtime of this machine can ever meet.
 */
export function didNotStart({ code, retryable }: ToolError): boolean {
  return code === 'SANDBOX_INIT_FAILED' || (code === 'RUNTIME_UNAVAILABLE' && retryable)
}

interface Run {
  readonly plan: SandboxedPlan
  readonly call: BackendCall
  readonly egress: Egress | undefined
  readonly runtimes: RuntimesSource<SandboxRuntimes>
  readonly context: BackendContext
}

/** One program, start to end: its output streams while it runs, and what it became is the answer. */
async function* run({ plan, call, egress, runtimes, context }: Run): AsyncGenerator<unknown, unknown> {
  const ready = await runtimes()
  const asked = await requestOf(plan, call, context, egress, ready.languages)
  const request = context.floor === undefined ? asked : { ...asked, least: context.floor }
  const feed = createFeed(context)
  const traced = tracedRequest(request, context)
  const onRuntime: NonNullable<SandboxRequest['onRuntime']> = (runtime) => context.measured({ runtime })
  const { tenant } = context.identity
  const work = ready
    .run({ ...traced, tenant, onOutput: feed.output, onMessage: feed.message, onRuntime }, context.signal)
    .finally(feed.end)
  const { signal } = context
  const tellPartial = (): void => context.measured({ partial: feed.written() })
  signal.addEventListener('abort', tellPartial, { once: true })
  // The work is waited for below; this keeps a failure before that from counting as unhandled.
  work.catch((error: unknown) => traced.span?.end(codeOf(error)))
  yield* feed.chunks()
  const { outcome, runtime } = await work
  signal.removeEventListener('abort', tellPartial)
  const { output, failure } = await answerOf(plan, request, outcome, context)
  const { usage, enforced, hit } = outcome
  traced.span?.note({ 'gantry.runtime': runtime.kind, 'gantry.isolation': runtime.isolation })
  traced.span?.end(failure?.code)
  context.measured({
    runtime,
    usage: { ...usage, enforced, ...(hit === undefined ? {} : { hit }) },
    ...(failure === undefined ? {} : { failure }),
    warnings: lossWarnings(outcome),
    plain: true,
  })
  return output
}

/** A program learns of its place in a trace by the variable that others use too; the tool's own environment goes first. */
function tracedRequest(request: SandboxRequest, context: BackendContext): SandboxRequest {
  const span = context.span?.child('sandbox')
  const traceparent = span?.traceparent ?? context.traceparent
  if (traceparent === undefined) return request
  // A run that is to be the same again must not see what is never the same.
  const place = request.deterministic === undefined ? { TRACEPARENT: traceparent } : {}
  return { ...request, env: { ...place, ...request.env }, ...(span === undefined ? {} : { span }) }
}
