import type { ToolError } from '@gantry/contract'
import { type Backend, type BackendCall, type BackendContext, planReader } from '@gantry/core/internal/backends/backend'
import { createFeed, runtimesHealth } from '@gantry/core/internal/code/program-backend'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { RuntimesSource, SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { codeOf } from '@gantry/core/internal/tracing/tracer'
import type { SandboxRuntimes } from '../runtimes/options.ts'
import { observeRefusals } from './egress-refusals.ts'
import { answerOf, measure } from './outcome.ts'
import { demandsOf, readBinding, requestOf, type SandboxedPlan } from './request.ts'

/**
 * Runs tools that are programs in a sandbox.
 * - Concurrency: any number of calls; each has a sandbox of its own.
 * - Cancellation: the signal of the call kills everything in its sandbox.
 * - Errors: INPUT_INVALID for arguments that give no program, RUNTIME_UNAVAILABLE and SANDBOX_INIT_FAILED
 * when nothing ran, LIMIT_EXCEEDED and TIMEOUT with the output so far.
 * - Ownership: the creator of the runtimes closes them.
 */
export function sandboxedBackend(runtimes: RuntimesSource<SandboxRuntimes>): Backend {
  const planOf = planReader(readBinding)
  let egress: Egress | undefined
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
    async explain(call, { identity, floor, signal }) {
      const ready = await runtimes()
      const { program, confinement } = demandsOf(planOf(call), call, identity, egress, ready.languages)
      return ready.explain(program, { ...confinement, ...(floor === undefined ? {} : { least: floor }) }, signal)
    },
    call: (call, context) => run({ plan: planOf(call), call, egress, runtimes, context }),
  }
}

/**
 * Whether a sandbox did not start. The exit of a program, its timeout, a request that no runtime of this machine can
 * ever serve, and the failure of a runtime that the request itself names do not count: other requests are served.
 */
export function didNotStart({ code, retryable, details }: ToolError): boolean {
  return (
    code === 'SANDBOX_INIT_FAILED' || (code === 'RUNTIME_UNAVAILABLE' && retryable && details?.runtime === undefined)
  )
}

interface Run {
  readonly plan: SandboxedPlan
  readonly call: BackendCall
  readonly egress: Egress | undefined
  readonly runtimes: RuntimesSource<SandboxRuntimes>
  readonly context: BackendContext
}

/** Runs one program: its output streams while it runs, and its outcome is the answer. */
async function* run({ plan, call, egress, runtimes, context }: Run): AsyncGenerator<unknown, unknown> {
  const ready = await runtimes()
  const refusals = egress && observeRefusals(egress, noteRefusal)
  const asked = await requestOf(plan, call, context, refusals?.egress, ready.languages)
  const request = context.floor === undefined ? asked : { ...asked, least: context.floor }
  const feed = createFeed(context)
  const traced = tracedRequest(request, context)
  const onRuntime: NonNullable<SandboxRequest['onRuntime']> = (runtime) => context.measured({ runtime })
  const { tenant } = context.identity
  const work = ready
    .run({ ...traced, tenant, onOutput: feed.output, onMessage: feed.message, onRuntime }, context.signal)
    .finally(feed.end)
  const leave = onAbort(context.signal, () => context.measured({ partial: feed.written() }))
  // The work is awaited below; this prevents an unhandled rejection before that.
  work.catch((error: unknown) => traced.span?.end(codeOf(error)))
  yield* feed.chunks()
  const { outcome, runtime } = await work
  leave()
  const { output, failure } = await answerOf(plan, request, outcome, context)
  traced.span?.note({ 'gantry.runtime': runtime.kind, 'gantry.isolation': runtime.isolation })
  traced.span?.end(failure?.code)
  measure({ outcome, runtime, failure, refusals: refusals?.warnings() ?? [] }, context)
  return output

  function noteRefusal(message: string): void {
    // A call that is stopped has its warnings too.
    context.measured({ warnings: refusals?.warnings() ?? [] })
    context.log('warn', message)
  }
}

/** Passes the trace context in the conventional variable; the tool's own environment takes precedence. */
function tracedRequest(request: SandboxRequest, context: BackendContext): SandboxRequest {
  const span = context.span?.child('sandbox')
  const traceparent = span?.traceparent ?? context.traceparent
  if (traceparent === undefined) return request
  // A deterministic run must not see a value that changes with each run.
  const place: { readonly [name: string]: string } =
    request.deterministic === undefined ? { TRACEPARENT: traceparent } : {}
  return { ...request, env: { ...place, ...request.env }, ...(span === undefined ? {} : { span }) }
}
