import { type Isolation, type SandboxNetwork, ToolError } from '@gantry/contract'
import { quote } from '@gantry/core/internal/ids/quote'
import {
  isIsolation,
  isolations,
  type Program,
  type SandboxJob,
  type SandboxSpec,
  stronger,
} from '@gantry/core/internal/runtimes/runtime'
import type { Confinement } from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { resolveLimits } from '../selection/limits.ts'
import type { Profile } from '../selection/profiles.ts'
import type { Requirement } from '../selection/select.ts'
import type { RuntimesSettings } from './options.ts'

/** What a request comes to. */
export interface Plan {
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
export function planOf(
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
