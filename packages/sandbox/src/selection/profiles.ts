import type { Isolation, Issue, JsonSchema, SandboxLimits } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { unknownMembers } from '@gantry/core/internal/options/options'
import { isIsolation, isolations, meets, type PackageKind, type Refusal } from '@gantry/core/internal/runtimes/runtime'
import { didYouMean } from '@gantry/core/internal/search/near'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { limitIssues, limitsSchema } from './limits.ts'

/** The isolation and limits that a run gets. */
export interface Profile {
  readonly name: string
  /** No runtime weaker than this is used. */
  readonly floor: Isolation
  /** The allowed runtime kinds; any when absent. */
  readonly runtimes?: readonly string[]
  /** Whether a run may request a network; none gets one unrequested. */
  readonly network: 'none' | 'allow'
  /** Every limit must be enforced by the kernel. */
  readonly strict: boolean
  /** Whether a call may name a runtime that isolates nothing. */
  readonly unsafeHost: boolean
  /** Whether its programs find the configured packages, and need a runtime that has them. */
  readonly packages: boolean
  /** Default limits of its runs; they may request more, up to the maxima. */
  readonly limits: Partial<SandboxLimits>
}

/** A configured profile: overrides the built-in one of the same name, or defines a new one, which must have a floor. */
export type ProfileOptions = Partial<Omit<Profile, 'name'>>

const usual = { network: 'allow', strict: false, unsafeHost: false, packages: true, limits: {} } as const

const builtIn: { readonly [name: string]: Profile } = {
  dev: { ...usual, name: 'dev', floor: 'none' },
  standard: { ...usual, name: 'standard', floor: 'namespaces' },
  hardened: { ...usual, name: 'hardened', floor: 'namespaces', network: 'none', strict: true },
  wasm: { ...usual, name: 'wasm', floor: 'wasm', runtimes: ['wasm'] },
}

/** Defaults of a custom profile. Its floor is required; the strongest stands here so that an omission fails closed. */
const blank: Omit<Profile, 'name'> = {
  floor: 'microvm',
  network: 'none',
  strict: false,
  unsafeHost: false,
  packages: true,
  limits: {},
}
const keys = ['floor', 'runtimes', 'network', 'strict', 'unsafeHost', 'packages', 'limits']
const nameShape = /^[A-Za-z][\w-]{0,63}$/

/** The schema of profiles as they are configured; `readProfiles` also compares them with the built-in ones. */
export const profilesSchema: JsonSchema = {
  type: 'object',
  additionalProperties: {
    type: 'object',
    properties: {
      floor: { enum: isolations },
      runtimes: { type: 'array', items: { type: 'string' }, minItems: 1 },
      network: { enum: ['none', 'allow'] },
      strict: { type: 'boolean' },
      unsafeHost: { type: 'boolean' },
      packages: { type: 'boolean' },
      limits: limitsSchema,
    } satisfies { readonly [Key in keyof Required<ProfileOptions>]: JsonSchema },
    additionalProperties: false,
  },
}

/** The limits and kinds that configured profiles are checked against. */
export interface ProfileBounds {
  readonly maxima: SandboxLimits
  /** Kinds of the configured runtimes. */
  readonly kinds: readonly string[]
}

/**
 * All profiles by name, and the issues of the configured ones; with issues the profiles must not be used. A built-in
 * profile can be made stricter and never weaker, so that `hardened` means the same on every machine.
 */
export function readProfiles(
  options: unknown,
  bounds: ProfileBounds,
): { readonly profiles: ReadonlyMap<string, Profile>; readonly issues: readonly Issue[] } {
  const profiles = new Map(Object.entries(builtIn))
  if (options === undefined) return { profiles, issues: [] }
  if (!isObject(options)) return { profiles, issues: [{ path: '/profiles', message: 'must be an object of profiles' }] }
  const issues: Issue[] = []
  for (const [name, given] of Object.entries(options)) {
    const path = `/profiles/${escapeSegment(name)}`
    const base = Object.hasOwn(builtIn, name) ? builtIn[name] : undefined
    const faults = profileIssues(name, given, base, path, bounds)
    issues.push(...faults)
    if (faults.length === 0) profiles.set(name, merge(name, given as ProfileOptions, base))
  }
  return { profiles, issues }
}

function profileIssues(
  name: string,
  given: unknown,
  base: Profile | undefined,
  path: string,
  bounds: ProfileBounds,
): Issue[] {
  if (!nameShape.test(name)) return [{ path, message: 'must be a name of letters, digits, "-" and "_"' }]
  if (!isObject(given)) return [{ path, message: 'must be an object' }]
  const issues: Issue[] = [...unknownMembers(given, keys, path, 'an option')]
  const fault = (key: string, message: string): void => void issues.push({ path: `${path}/${key}`, message })
  const { floor = base?.floor, runtimes, network, strict, unsafeHost, packages, limits } = given
  if (floor === undefined) fault('floor', `must be stated${didYouMean(name, Object.keys(builtIn))}`)
  else if (!isIsolation(floor)) fault('floor', `must be one of ${isolations.join(', ')}`)
  else if (base !== undefined && !meets(floor, base.floor)) fault('floor', `must not be below ${base.floor}`)
  if (unsafeHost !== undefined && typeof unsafeHost !== 'boolean') fault('unsafeHost', 'must be true or false')
  else if (unsafeHost === true && floor !== 'none') fault('unsafeHost', "needs a floor of 'none'")
  if (strict !== undefined && typeof strict !== 'boolean') fault('strict', 'must be true or false')
  else if (strict === false && base?.strict === true) fault('strict', 'must stay true')
  if (network !== undefined && network !== 'none' && network !== 'allow') fault('network', "must be 'none' or 'allow'")
  else if (network === 'allow' && base?.network === 'none') fault('network', "must stay 'none'")
  if (packages !== undefined && typeof packages !== 'boolean') fault('packages', 'must be true or false')
  for (const message of runtimesFaults(runtimes, bounds.kinds)) fault('runtimes', message)
  return [...issues, ...limitIssues(limits, `${path}/limits`, bounds.maxima)]
}

function runtimesFaults(runtimes: unknown, kinds: readonly string[]): string[] {
  if (runtimes === undefined) return []
  if (!Array.isArray(runtimes) || runtimes.length === 0) return ['must be a list of runtimes']
  return runtimes.flatMap((kind): string[] => {
    if (typeof kind !== 'string') return ['must be a list of runtimes']
    return kinds.includes(kind) ? [] : [`names an unknown runtime${didYouMean(kind, kinds)}: ${kind}`]
  })
}

function merge(name: string, given: ProfileOptions, base: Profile | undefined): Profile {
  const stated = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { ...blank, ...base, ...stated, name }
}

/** Why a runtime that is allowed does not have the packages that the configuration gives to the program. */
export function lackingPackages(
  served: readonly PackageKind[] = [],
  wanted: readonly PackageKind[] = [],
  profile: string,
): Refusal | undefined {
  const lacking = wanted.find((each) => !served.includes(each))
  if (lacking === undefined) return undefined
  return {
    reason: `It cannot have the packages of runtimes.${lacking}.packages, which the profile ${profile} gives to such programs.`,
    remedy: 'Use the runtime process, or a profile with `packages: false` for programs that need none.',
  }
}
