import { type Isolation, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import {
  meets,
  type Probe,
  type Program,
  type Refusal,
  type Runtime,
  type SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { didYouMean } from '@gantry/core/internal/search/near'
import type { Profile } from './profiles.ts'

/** What a runtime must be to serve a request. */
export interface Requirement {
  readonly profile: Profile
  /** The strongest of what the profile and the call ask for. */
  readonly floor: Isolation
  /** The one kind that may be used, when the call names it. */
  readonly runtime?: string
  readonly program: Program['kind']
}

/** Why one runtime does not serve a request. */
export interface RuntimeRefusal extends Refusal {
  readonly kind: string
  /** Strong enough and allowed, but unavailable: the most useful refusal, shown first. */
  readonly suits: boolean
}

/** Says whether a runtime works here; at once when it is known. */
export type ProbeSource = (runtime: Runtime) => Probe | Promise<Probe>

/**
 * The first runtime of a list, cheapest first, that is strong enough, allowed, able and there; none is probed before its
 * turn, and none is ever chosen that is weaker than what was asked for.
 * - Errors: RUNTIME_UNAVAILABLE with the reason and the remedy for each runtime in `details.runtimes`.
 */
export async function select<R extends Runtime>(
  cheapestFirst: readonly R[],
  requirement: Requirement,
  spec: SandboxSpec,
  probeOf: ProbeSource,
): Promise<R> {
  const refusals: RuntimeRefusal[] = []
  for (const runtime of cheapestFirst) {
    const misfit = misfitOf(runtime, requirement)
    const refusal = misfit ?? (await lackOf(runtime, requirement, spec, probeOf))
    if (refusal === undefined) return runtime
    refusals.push({ kind: runtime.kind, suits: misfit === undefined, ...refusal })
  }
  throw unavailable(requirement, refusals)
}

/** Why a runtime may not be used for this, whether it is there or not. */
function misfitOf({ kind, isolation }: Runtime, requirement: Requirement): Refusal | undefined {
  const { profile, floor, runtime } = requirement
  if (runtime !== undefined && runtime !== kind) {
    return { reason: `The call names the runtime ${quote(runtime)}.`, remedy: `Name ${kind}, or no runtime.` }
  }
  if (isolation === 'none' && !(profile.unsafeHost && runtime === kind)) {
    const missing = profile.unsafeHost ? 'the call does not name it' : `the profile ${profile.name} does not allow it`
    return {
      reason: `It isolates nothing, and ${missing}.`,
      remedy: `Set unsafeHost: true in a profile whose floor is none, such as dev, and name that profile and ${kind} in the call.`,
    }
  }
  if (profile.runtimes !== undefined && !profile.runtimes.includes(kind)) {
    return {
      reason: `The profile ${profile.name} uses only ${profile.runtimes.join(', ')}.`,
      remedy: 'Name another profile.',
    }
  }
  if (meets(isolation, floor)) return undefined
  return {
    reason: `Its isolation is ${isolation}, and at least ${floor} is asked for.`,
    remedy: `Use a runtime of at least ${floor}, or name a profile whose floor is lower.`,
  }
}

/** Why a runtime that may be used cannot be. */
async function lackOf(
  runtime: Runtime,
  { program }: Requirement,
  spec: SandboxSpec,
  probeOf: ProbeSource,
): Promise<Refusal | undefined> {
  if (!runtime.programs.includes(program)) {
    return { reason: `It cannot run a program given as ${program}.`, remedy: 'Use another runtime.' }
  }
  const refused = runtime.refuses(spec)
  if (refused !== undefined) return refused
  const probe = await probeOf(runtime)
  if (!probe.available) return { reason: probe.reason, remedy: probe.remedy }
  const { language } = spec
  if (language !== undefined && !probe.languages.includes(language)) {
    const has = probe.languages.join(', ') || 'no language'
    return {
      reason: `It has ${has} here, and not ${quote(language)}.`,
      remedy: `Install what runs ${quote(language)}.`,
    }
  }
  // Asked again, because the probe may have found out what cannot be held here.
  return runtime.refuses(spec)
}

function unavailable(requirement: Requirement, refusals: readonly RuntimeRefusal[]): ToolError {
  const { runtime } = requirement
  const kinds = refusals.map(({ kind }) => kind)
  const runtimes = refusals.map(({ kind, reason, remedy }) => ({ kind, reason, remedy }))
  // Only what a probe or a toolchain decides can change by itself.
  const options = { details: { runtimes }, retryable: refusals.some(({ suits }) => suits) }
  if (runtime !== undefined && !kinds.includes(runtime)) {
    const message = `There is no runtime ${quote(runtime)} here${didYouMean(runtime, kinds)}; there are ${kinds.join(', ') || 'none'}.`
    return new ToolError('RUNTIME_UNAVAILABLE', message, options)
  }
  const best = mostHelpful(requirement, refusals)
  if (best === undefined) return new ToolError('RUNTIME_UNAVAILABLE', 'There is no runtime here.', options)
  const message = `No runtime serves this request. ${best.kind}: ${best.reason} ${best.remedy}`
  return new ToolError('RUNTIME_UNAVAILABLE', message, options)
}

/** The one that was named, else the one that would have served. */
function mostHelpful({ runtime }: Requirement, refusals: readonly RuntimeRefusal[]): RuntimeRefusal | undefined {
  const named = refusals.find(({ kind }) => kind === runtime)
  return named ?? refusals.find(({ suits }) => suits) ?? refusals[0]
}
