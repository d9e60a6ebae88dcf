import type { Isolation, Issue, SandboxLimits } from '@gantry/contract'
import { isIsolation, isolations, meets } from '@gantry/core/internal/runtimes/runtime'
import { didYouMean, unknownKeys } from '@gantry/core/internal/search/near'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { limitIssues } from './limits.ts'

/** What a run is held to. */
export interface Profile {
  readonly name: string
  /** No runtime weaker than this is used. */
  readonly floor: Isolation
  /** Only these kinds of runtime are used; any, when absent. */
  readonly runtimes?: readonly string[]
  /** Whether a run may ask for a network; none has one unasked. */
  readonly network: 'none' | 'allow'
  /** Every limit must be held by the kernel. */
  readonly strict: boolean
  /** Whether a call may name a runtime that isolates nothing. */
  readonly unsafeHost: boolean
  /** Defaults of its runs; they may ask for more, up to the maxima. */
  readonly limits: Partial<SandboxLimits>
}

/** A profile as it is configured: over the built-in one of the same name, or one of its own, which must have a floor. */
export type ProfileOptions = Partial<Omit<Profile, 'name'>>

const builtIn: { readonly [name: string]: Profile } = {
  dev: { name: 'dev', floor: 'none', network: 'allow', strict: false, unsafeHost: false, limits: {} },
  standard: { name: 'standard', floor: 'namespaces', network: 'allow', strict: false, unsafeHost: false, limits: {} },
  hardened: { name: 'hardened', floor: 'namespaces', network: 'none', strict: true, unsafeHost: false, limits: {} },
  wasm: {
    name: 'wasm',
    floor: 'wasm',
    runtimes: ['wasm'],
    network: 'allow',
    strict: false,
    unsafeHost: false,
    limits: {},
  },
}

/** What a profile of one's own starts from; its floor is always stated, and would be the strongest if it were not. */
const blank: Omit<Profile, 'name'> = {
  floor: 'microvm',
  network: 'none',
  strict: false,
  unsafeHost: false,
  limits: {},
}
const keys = ['floor', 'runtimes', 'network', 'strict', 'unsafeHost', 'limits']
const nameShape = /^[A-Za-z][\w-]{0,63}$/

/** What configured profiles are checked against. */
export interface ProfileBounds {
  readonly maxima: SandboxLimits
  /** The kinds of runtime that there are. */
  readonly kinds: readonly string[]
}

/**
 * All profiles by name, and what is wrong with the configured ones; with issues the profiles are not to be used. A
 * built-in profile can be made stricter and never laxer, so that `hardened` means on every machine what it says.
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
  const issues: Issue[] = [...unknownKeys(given, keys, path, 'is not an option')]
  const fault = (key: string, message: string): void => void issues.push({ path: `${path}/${key}`, message })
  const { floor = base?.floor, runtimes, network, strict, unsafeHost, limits } = given
  if (floor === undefined) fault('floor', `must be stated${didYouMean(name, Object.keys(builtIn))}`)
  else if (!isIsolation(floor)) fault('floor', `must be one of ${isolations.join(', ')}`)
  else if (base !== undefined && !meets(floor, base.floor)) fault('floor', `must not be below ${base.floor}`)
  if (unsafeHost !== undefined && typeof unsafeHost !== 'boolean') fault('unsafeHost', 'must be true or false')
  else if (unsafeHost === true && floor !== 'none') fault('unsafeHost', "needs a floor of 'none'")
  if (strict !== undefined && typeof strict !== 'boolean') fault('strict', 'must be true or false')
  else if (strict === false && base?.strict === true) fault('strict', 'must stay true')
  if (network !== undefined && network !== 'none' && network !== 'allow') fault('network', "must be 'none' or 'allow'")
  else if (network === 'allow' && base?.network === 'none') fault('network', "must stay 'none'")
  for (const message of runtimesFaults(runtimes, bounds.kinds)) fault('runtimes', message)
  return [...issues, ...limitIssues(limits, `${path}/limits`, bounds.maxima)]
}

function runtimesFaults(runtimes: unknown, kinds: readonly string[]): string[] {
  if (runtimes === undefined) return []
  if (!Array.isArray(runtimes) || runtimes.length === 0) return ['must be a list of runtimes']
  return runtimes.flatMap((kind): string[] => {
    if (typeof kind !== 'string') return ['must be a list of runtimes']
    return kinds.includes(kind) ? [] : [`names a runtime that there is not${didYouMean(kind, kinds)}: ${kind}`]
  })
}

function merge(name: string, given: ProfileOptions, base: Profile | undefined): Profile {
  const stated = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { ...blank, ...base, ...stated, name }
}

function isObject(value: unknown): value is { readonly [key: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
