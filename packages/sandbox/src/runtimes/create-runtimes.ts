import { type Isolation, type SandboxNetwork, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { follow } from '@gantry/core/internal/resilience/abort'
import type {
  Outcome,
  Probe,
  Program,
  Runtime,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { isIsolation, isolations, stronger } from '@gantry/core/internal/runtimes/runtime'
import type {
  Confinement,
  OpenedSandbox,
  RanIn,
  RunAnswer,
  RuntimeInfo,
  Runtimes,
  SandboxRequest,
} from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { traced } from '@gantry/core/internal/tracing/tracer'
import { createPools } from '../pools/pools.ts'
import { disposeOf, openSandbox, startThrice } from '../pools/start.ts'
import { resolveLimits } from '../selection/limits.ts'
import { breaches, createProbes } from '../selection/probes.ts'
import type { Profile } from '../selection/profiles.ts'
import { type Requirement, select } from '../selection/select.ts'
import { type RuntimesOptions, type RuntimesSettings, settingsOf } from './options.ts'

/** Combines runtimes: selection, probes, pools and retries of a start. Throws CONFIG_INVALID with the path of each wrong option. */
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

/** What a request comes to. */
interface Plan {
  readonly requirement: Requirement
  readonly spec: SandboxSpec
}

/**
 * The profile of a request that names none: the one that its runtime is named after, so that what the host demands of a
 * profile holds for those too who name a runtime instead.
 */
function usualProfile({ runtime }: Confinement): string {
  return runtime === 'wasm' ? 'wasm' : 'standard'
}

/**
 * Works out what a request asks of a runtime.
 * - Errors: INPUT_INVALID for limits, a profile or a floor that there is not; EGRESS_DENIED for a network where the
 *   profile allows none.
 */
function planOf(
  program: Pick<Program, 'kind'> & { readonly language?: string },
  confinement: Confinement & Pick<SandboxJob, 'gateway'>,
  { profiles, limits, maxLimits }: RuntimesSettings,
  session = false,
): Plan {
  const { runtime, deterministic, dial } = confinement
  const profile = profileOf(confinement.profile ?? usualProfile(confinement), profiles)
  const network = networkOf(confinement.network, profile)
  const { language } = program
  return {
    requirement: {
      profile,
      floor: floorOf(confinement, profile),
      program: program.kind,
      ...(runtime === undefined ? {} : { runtime }),
    },
    spec: {
      limits: resolveLimits(confinement.limits ?? {}, { ...limits, ...profile.limits }, maxLimits),
      network,
      ...(language === undefined ? {} : { language }),
      ...(network === 'none' || dial === undefined ? {} : { dial }),
      ...(deterministic === undefined ? {} : { deterministic }),
      ...(profile.strict ? { strict: true } : {}),
      ...(session ? { session: true } : {}),
      ...(confinement.gateway === undefined ? {} : { gateway: true }),
    },
  }
}

function profileOf(name: string, profiles: ReadonlyMap<string, Profile>): Profile {
  const profile = profiles.get(name)
  if (profile !== undefined) return profile
  const message = `is not a profile${didYouMean(name, profiles.keys())}; there are ${[...profiles.keys()].join(', ')}`
  throw invalid('/profile', message, name)
}

/** The floor of `standard` is for those who ask for nothing; who names a runtime or a floor without a profile has asked. */
function floorOf({ profile, floor, least = 'none' }: Confinement, { floor: usual }: Profile): Isolation {
  if (floor !== undefined && !isIsolation(floor)) {
    throw invalid('/floor', `must be one of ${isolations.join(', ')}`, String(floor))
  }
  // Only a program names a floor, never a tool's arguments: who names one instead of a profile means just that.
  if (profile === undefined && floor !== undefined) return stronger(floor, least)
  return stronger(stronger(usual, floor ?? 'none'), least)
}

function networkOf(asked: SandboxNetwork | undefined, { name, network }: Profile): SandboxNetwork {
  if (asked === undefined || asked === 'none' || asked.allow.length === 0) return 'none'
  if (network === 'allow') return asked
  const message = `The profile ${name} lets a program reach nothing; ask for no network, or name a profile that allows one.`
  throw new ToolError('EGRESS_DENIED', message)
}

function invalid(path: string, message: string, value: string): ToolError {
  const issues = [{ path, message }]
  return new ToolError('INPUT_INVALID', `The request is wrong: ${path} ${quote(value)} ${message}.`, {
    details: { issues },
  })
}
