import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type { Outcome, Probe, Runtime, Sandbox } from '@gantry/core/internal/runtimes/runtime'
import type {
  Confinement,
  OpenedSandbox,
  RanIn,
  RunAnswer,
  RuntimeInfo,
  Runtimes,
  SandboxRequest,
} from '@gantry/core/internal/runtimes/runtimes'
import { traced } from '@gantry/core/internal/tracing/tracer'
import { createPools } from '../pools/pools.ts'
import { disposeOf, openSandbox, startThrice } from '../pools/start.ts'
import { breaches, createProbes } from '../selection/probes.ts'
import { select } from '../selection/select.ts'
import { type RuntimesOptions, settingsOf } from './options.ts'
import { type Plan, planOf } from './request.ts'

/** Makes the one door to these runtimes. Throws CONFIG_INVALID with the path of each wrong option. */
export function createRuntimes(options: RuntimesOptions): Runtimes {
  const settings = settingsOf(options)
  const { cheapestFirst, timing, random } = settings
  const closing = new AbortController()
  const probes = createProbes(timing, closing.signal)
  const pools = createPools(settings.pool, timing, settings.onFault)
  const running = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  let programs = 0

  const choose = ({ requirement, spec }: Plan, signal: AbortSignal): Promise<Runtime> =>
    select(cheapestFirst, requirement, spec, (runtime) => probes.get(runtime, signal))

  /** Does work that `close` cancels and waits for. */
  const tracked = async <T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    signal.throwIfAborted()
    if (closed !== undefined)
      throw new ToolError('RUNTIME_UNAVAILABLE', 'The runtimes are closed.', { retryable: false })
    const both = follow(signal, closing.signal)
    const done = work(both.signal)
    running.add(done)
    try {
      return await done
    } finally {
      both.leave()
      running.delete(done)
    }
  }
  const counted = async <T>(work: () => Promise<T>): Promise<T> => {
    programs += 1
    try {
      return await work()
    } finally {
      programs -= 1
    }
  }
  const runOnce = async (request: SandboxRequest, signal: AbortSignal): Promise<RunAnswer> => {
    const {
      profile,
      runtime: named,
      floor,
      least,
      limits,
      network,
      dial,
      deterministic,
      span,
      onRuntime,
      ...job
    } = request
    const plan = planOf(job.program, request, settings)
    const runtime = await choose(plan, signal)
    onRuntime?.({ kind: runtime.kind, isolation: runtime.isolation })
    const attempt = async (count: number): Promise<Outcome> => {
      // What waited may have died unseen, so a second attempt does not rely on it.
      const sandbox = await traced(span?.child('sandbox.start', { facts: { 'gantry.attempt': count } }), () =>
        count === 1 ? pools.take(runtime, plan.spec, signal) : openSandbox(runtime, plan.spec, signal),
      )
      try {
        return await traced(span?.child('sandbox.run'), () => sandbox.run(job, signal))
      } finally {
        await disposeOf(sandbox)
      }
    }
    const { value: outcome, attempts } = await startThrice(runtime.kind, attempt, signal, random)
    return { outcome, ...ranIn(runtime, plan, attempts) }
  }
  const openOnce = async (language: string, confinement: Confinement, signal: AbortSignal): Promise<OpenedSandbox> => {
    const plan = planOf({ kind: 'code', language }, confinement, settings, true)
    const runtime = await choose(plan, signal)
    const open = (): Promise<Sandbox> => openSandbox(runtime, plan.spec, signal)
    const { value: sandbox, attempts } = await startThrice(runtime.kind, open, signal, random)
    return { sandbox, ...ranIn(runtime, plan, attempts) }
  }
  const shutDown = async (): Promise<void> => {
    closing.abort(new ToolError('CANCELLED', 'The runtimes were closed.'))
    await Promise.allSettled([...running, pools.close()])
    const ends = await Promise.allSettled(cheapestFirst.map((runtime) => runtime.close()))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }
  return {
    run: (request, signal) => tracked(signal, (both) => counted(() => runOnce(request, both))),
    load: () => ({ running: programs, waiting: pools.waiting }),
    open: (language, confinement, signal) => tracked(signal, (both) => openOnce(language, confinement, both)),
    list: (signal) =>
      tracked(signal, async (both) => {
        const infos: RuntimeInfo[] = []
        for (const runtime of options.runtimes) infos.push(infoOf(runtime, await probes.get(runtime, both)))
        return infos
      }),
    close: () => {
      closed ??= shutDown()
      return closed
    },
  }
}

function ranIn({ kind, isolation }: Runtime, { spec }: Plan, attempts: number): RanIn {
  return { runtime: { kind, isolation }, attempts, limits: spec.limits }
}

function infoOf({ kind, isolation }: Runtime, probe: Probe): RuntimeInfo {
  const common = { kind, isolation, breached: breaches(probe) }
  if (probe.available) {
    const { version, startMs, limits, languages, attacks } = probe
    return { ...common, available: true, version, startMs, limits, languages, attacks }
  }
  const { version = null, reason, remedy } = probe
  const nothing = { limits: {}, languages: [], attacks: [], startMs: null }
  return { ...common, ...nothing, available: false, version, reason, remedy }
}
