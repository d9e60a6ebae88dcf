import { type Isolation, type SandboxNetwork, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import { follow } from '@gantry/core/internal/resilience/abort'
import {
  isIsolation,
  isolations,
  type Outcome,
  type PackageKind,
  type Probe,
  type Runtime,
  type Sandbox,
  type SandboxSpec,
  stronger,
} from '@gantry/core/internal/runtimes/runtime'
import type {
  Confinement,
  OpenedSandbox,
  ProgramTraits,
  RanIn,
  RunAnswer,
  RuntimeChoice,
  RuntimeInfo,
  Runtimes,
  SandboxRequest,
} from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { traced } from '@gantry/core/internal/tracing/tracer'
import { createDisposals } from '../pools/disposals.ts'
import { openSandbox, startThrice } from '../pools/pool.ts'
import { createPools } from '../pools/pools.ts'
import { resolveLimits } from '../selection/limits.ts'
import { createLiveOrder } from '../selection/live-order.ts'
import type { Profile } from '../selection/profiles.ts'
import { breaches, createProbes, explainSelection, type Requirement, select, specFor } from '../selection/select.ts'
import { type RuntimesOptions, type RuntimesSettings, settingsOf } from './options.ts'

/**
 * Combines runtimes: selection, probes, pools and retries of a start. Throws CONFIG_INVALID with the path of each wrong
 * option.
 */
export function createRuntimes(options: RuntimesOptions): Runtimes {
  const settings = settingsOf(options)
  const { cheapestFirst, timing, random } = settings
  const closing = new AbortController()
  const probes = createProbes(timing, closing.signal)
  const live = createLiveOrder(cheapestFirst, timing)
  const open = (runtime: Runtime, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> =>
    live.observe(runtime, spec.language, () => openSandbox(runtime, spec, signal), isUnavailable)
  const pools = createPools(settings.pool, timing, settings.onFault, open)
  const disposals = createDisposals()
  const running = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  let programs = 0

  const choose = async ({ requirement, spec }: Plan, signal: AbortSignal): Promise<Runtime> => {
    const order = live.statuses(spec.language).map(({ runtime }) => runtime)
    const runtime = await select(order, requirement, spec, (each) => probes.get(each, signal))
    live.take(runtime)
    return runtime
  }
  /**
   * Runs work in the selected runtime, and in the next that meets the plan when that one is unavailable: nothing ran then.
   * The error of the first is thrown when there is no other.
   */
  const inRuntime = async <T>(plan: Plan, signal: AbortSignal, work: InRuntime<T>): Promise<T> => {
    const tried = new Set<Runtime>()
    let first: unknown
    for (let runtime = await choose(plan, signal); !tried.has(runtime); runtime = await choose(plan, signal)) {
      tried.add(runtime)
      let began = false
      const begin = (): void => {
        began = true
      }
      try {
        return await work(runtime, begin)
      } catch (error) {
        if (began || !isUnavailable(error) || signal.aborted) throw error
        first ??= error
      }
    }
    throw first
  }

  /** Runs work that `close` cancels and waits for. */
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
    const plan = planOf(traitsOf(job), request, settings)
    return inRuntime(plan, signal, async (runtime, begin) => {
      if (runtime.elsewhere !== true) onRuntime?.(nameOf(runtime))
      const spec = specFor(runtime, plan.spec, plan.requirement.floor)
      let name = nameOf(runtime)
      const attempt = async (count: number): Promise<Outcome> => {
        // A warm sandbox may have died undetected, so a second attempt opens a new one.
        const sandbox = await traced(span?.child('sandbox.start', { facts: { 'gantry.attempt': count } }), () =>
          count === 1 ? pools.take(runtime, spec, signal) : open(runtime, spec, signal),
        )
        name = nameOf(runtime, sandbox)
        if (sandbox.within !== undefined) onRuntime?.(name)
        begin()
        try {
          const outcome = await traced(span?.child('sandbox.run'), () => sandbox.run(job, signal))
          // A runtime that hands the whole run to another host knows only now what was selected there.
          name = nameOf(runtime, sandbox)
          return outcome
        } finally {
          await disposals.end(sandbox)
        }
      }
      const { value: outcome, attempts } = await startThrice(runtime.kind, attempt, signal, random)
      return { outcome, runtime: name, attempts, limits: plan.spec.limits }
    })
  }
  /** A pool opens a new sandbox where sandboxes of the spec cannot wait, as those of sessions. */
  const takeOnce = async (
    program: ProgramTraits,
    confinement: Confinement,
    signal: AbortSignal,
  ): Promise<OpenedSandbox> => {
    const plan = planOf(program, confinement, settings)
    return inRuntime(plan, signal, async (runtime) => {
      const spec = specFor(runtime, plan.spec, plan.requirement.floor)
      const start = (count: number): Promise<Sandbox> =>
        count === 1 ? pools.take(runtime, spec, signal) : open(runtime, spec, signal)
      const { value: sandbox, attempts } = await startThrice(runtime.kind, start, signal, random)
      return { sandbox, runtime: nameOf(runtime, sandbox), attempts, limits: spec.limits }
    })
  }
  const openOnce = (language: string, confinement: Confinement, signal: AbortSignal): Promise<OpenedSandbox> =>
    takeOnce({ kind: 'code', language, session: true }, confinement, signal)
  const explainOnce = async (
    program: ProgramTraits,
    confinement: Confinement,
    signal: AbortSignal,
  ): Promise<RuntimeChoice> => {
    const { requirement, spec } = planOf(program, confinement, settings)
    const order = live.statuses(spec.language)
    const verdicts = await explainSelection(order, requirement, spec, (each) => probes.get(each, signal))
    const chosen = verdicts.find(({ verdict }) => verdict === 'chosen')
    return {
      profile: requirement.profile.name,
      floor: requirement.floor,
      program,
      network: spec.network,
      limits: spec.limits,
      ...(chosen === undefined ? {} : { chosen: chosen.kind }),
      runtimes: verdicts,
    }
  }
  const shutDown = async (): Promise<void> => {
    closing.abort(new ToolError('CANCELLED', 'The runtimes were closed.'))
    await Promise.allSettled([...running, pools.close()])
    await disposals.settled()
    const ends = await Promise.allSettled(cheapestFirst.map((runtime) => runtime.close()))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }
  return {
    run: (request, signal) => tracked(signal, (both) => counted(() => runOnce(request, both))),
    load: () => ({ running: programs, waiting: pools.waiting }),
    open: (language, confinement, signal) => tracked(signal, (both) => openOnce(language, confinement, both)),
    take: (program, confinement, signal) => tracked(signal, (both) => takeOnce(program, confinement, both)),
    explain: (program, confinement, signal) => tracked(signal, (both) => explainOnce(program, confinement, both)),
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

/** Work in a selected runtime; it calls `begin` when a program may start, after which no other runtime is tried. */
type InRuntime<T> = (runtime: Runtime, begin: () => void) => Promise<T>

/** A refusal of this one request is not retryable, and says nothing about the runtime. */
function isUnavailable(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE' && error.retryable
}

function traitsOf({ program, gateway }: Pick<SandboxRequest, 'program' | 'gateway'>): ProgramTraits {
  return {
    kind: program.kind,
    ...(program.kind === 'code' ? { language: program.language } : {}),
    ...(gateway === undefined ? {} : { gateway: true }),
  }
}

/** The runtime as a result names it; for a sandbox on another host, the runtime that was selected there. */
function nameOf(
  runtime: Runtime,
  { within, image: own, packages }: Pick<Sandbox, 'within' | 'image' | 'packages'> = {},
): RanIn['runtime'] {
  const { kind } = runtime
  const { isolation, image } = within ?? { isolation: runtime.isolation, image: own ?? runtime.image?.() }
  return {
    kind,
    isolation,
    ...(image === undefined ? {} : { image }),
    ...(within === undefined ? {} : { inner: within.kind }),
    ...(packages === undefined ? {} : { packages }),
  }
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

/** A request resolved against profiles, limits and network rules. */
interface Plan {
  readonly requirement: Requirement
  readonly spec: SandboxSpec
}

/**
 * The profile of a request that names none: the one with the name of its runtime, so that the configured floor of a
 * profile also applies to requests that name a runtime instead.
 */
function usualProfile({ runtime }: Confinement): string {
  return runtime === 'wasm' ? 'wasm' : 'standard'
}

/**
 * Resolves the demands of a request.
 * - Errors: INPUT_INVALID for unknown or invalid limits, profiles and floors; EGRESS_DENIED for a network where the
 * profile allows none.
 */
function planOf(
  { kind, language, session, gateway }: ProgramTraits,
  confinement: Confinement,
  { profiles, limits, maxLimits, packages: configured }: RuntimesSettings,
): Plan {
  const { runtime, deterministic, dial } = confinement
  const profile = profileOf(confinement.profile ?? usualProfile(confinement), profiles)
  const network = networkOf(confinement.network, profile)
  const packages = profile.packages ? packagesFor(kind, language, gateway === true, configured) : []
  return {
    requirement: {
      profile,
      floor: floorOf(confinement, profile),
      program: kind,
      ...(packages.length === 0 ? {} : { packages }),
      ...(runtime === undefined ? {} : { runtime }),
    },
    spec: {
      limits: resolveLimits(confinement.limits ?? {}, { ...limits, ...profile.limits }, maxLimits),
      network,
      ...(language === undefined ? {} : { language }),
      ...(network === 'none' || dial === undefined ? {} : { dial }),
      ...(deterministic === undefined ? {} : { deterministic }),
      ...(profile.strict ? { strict: true } : {}),
      ...(session === true ? { session: true } : {}),
      ...(gateway === true ? { gateway: true } : {}),
      ...(packages.length === 0 ? {} : { packages }),
    },
  }
}

/** The kinds that a language finds packages of; commands, and code in a shell, may start either interpreter. */
const packagesOf: { readonly [language: string]: readonly PackageKind[] } = {
  python: ['python'],
  javascript: ['node'],
  typescript: ['node'],
  bash: ['python', 'node'],
}

/**
 * The configured packages that a program must find. A program over tools in JavaScript has no modules at all, so it needs
 * none; a WASI module has no interpreter.
 */
function packagesFor(
  kind: ProgramTraits['kind'],
  language: string | undefined,
  isOverTools: boolean,
  configured: readonly PackageKind[],
): readonly PackageKind[] {
  if (kind === 'wasi' || (isOverTools && language !== 'python')) return []
  return configured.filter((each) => kind !== 'code' || packagesOf[language ?? '']?.includes(each) === true)
}

function profileOf(name: string, profiles: ReadonlyMap<string, Profile>): Profile {
  const profile = profiles.get(name)
  if (profile !== undefined) return profile
  const message = `is not a profile${didYouMean(name, profiles.keys())}; there are ${[...profiles.keys()].join(', ')}`
  throw invalid('/profile', message, name)
}

/**
 * The floor of `standard` applies to requests without demands; a request that names a runtime or a floor has made its
 * own choice.
 */
function floorOf({ profile, floor, least = 'none' }: Confinement, { floor: usual }: Profile): Isolation {
  if (floor !== undefined && !isIsolation(floor)) {
    throw invalid('/floor', `must be one of ${isolations.join(', ')}`, String(floor))
  }
  // Only host code names a floor, never a tool's arguments, so a floor without a profile is intended.
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
  return new ToolError('INPUT_INVALID', `Invalid request: ${path} ${quote(value)} ${message}.`, {
    details: { issues },
  })
}
