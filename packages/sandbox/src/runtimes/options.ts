import type { Issue, JsonSchema, SandboxLimits } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { isFunction } from '@gantry/core/internal/json/plain'
import { type Check, callback, either, having, listOf, oneOf, part, whole } from '@gantry/core/internal/options/option'
import { checkOptions, type OptionsShape, optionsCheck, refuse } from '@gantry/core/internal/options/options'
import type { PackageKind, Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import type { LanguageRow, Languages } from '../languages/languages.ts'
import { type PackageOptions, packageChecks } from '../packages/package-lists.ts'
import { defaultPools, type PoolFault, type PoolsSettings } from '../pools/pools.ts'
import { systemTiming, type Timing } from '../pools/timing.ts'
import { absoluteMaxima, defaultLimits, defaultMaxima, limitIssues, limitsSchema } from '../selection/limits.ts'
import { type Profile, type ProfileOptions, profilesSchema, readProfiles } from '../selection/profiles.ts'
import { checkSessionsOptions, type Sessions, type SessionsOptions, sessionsCheck } from '../sessions/sessions.ts'

/** Options of combined runtimes; only `runtimes` is required. */
export interface RuntimesOptions {
  /** Each kind once. They are closed with the combined runtimes. */
  readonly runtimes: readonly Runtime[]
  /** Override built-in profiles or add new ones. */
  readonly profiles?: { readonly [name: string]: ProfileOptions }
  /** Default limits of a run, below those of the run and its profile. */
  readonly limits?: Partial<SandboxLimits>
  /** Maxima of the limits that a run may request. */
  readonly maxLimits?: Partial<SandboxLimits>
  /** Settings of warm sandboxes: sized by demand when absent, none when false. */
  readonly pool?: false | Partial<PoolsSettings>
  /** Called for each warm sandbox that failed to start or ended before it was taken; errors it throws are ignored. */
  readonly onFault?: (fault: PoolFault) => void
  readonly timing?: Timing
  /** Source of randomness for the delay between starts. */
  readonly random?: () => number
  /** The kinds of packages that are configured; programs of their languages run only where they are. */
  readonly packages?: readonly PackageKind[]
}

/** Options with all defaults applied. */
export interface RuntimesSettings {
  readonly cheapestFirst: readonly Runtime[]
  readonly profiles: ReadonlyMap<string, Profile>
  readonly limits: SandboxLimits
  readonly maxLimits: SandboxLimits
  readonly pool: PoolsSettings | undefined
  readonly onFault: (fault: PoolFault) => void
  readonly timing: Timing
  readonly random: () => number
  readonly packages: readonly PackageKind[]
}

/** Node's timers overflow above this and fire at once. */
const longestMs = 2_147_483_647

const poolCheck = optionsCheck<PoolsSettings>({
  members: {
    min: whole(0, 1_024),
    max: whole(1, 1_024),
    maxTotal: whole(1, 4_096),
    maxMemoryBytes: whole(1),
    maxIdleMs: whole(1, longestMs),
  },
})
const runtimesList = listOf(
  part(
    (value) => isObject(value) && isText(value.kind) && isFunction(value.open) && isFunction(value.probe),
    'a runtime',
  ),
)
const shared: Omit<OptionsShape<RuntimesOptions>['members'], 'runtimes' | 'packages'> = {
  profiles: true,
  limits: true,
  maxLimits: true,
  pool: either(
    part((value) => value === false, 'false', { const: false }),
    poolCheck,
  ),
  onFault: callback,
  timing: having('now', 'after'),
  random: callback,
}
const runtimesCheck = optionsCheck<RuntimesOptions>({
  members: { runtimes: runtimesList, packages: { type: 'array', items: oneOf('python', 'node') }, ...shared },
  required: ['runtimes'],
})

/** Applies the defaults, or throws CONFIG_INVALID with the path of each invalid option. */
export function settingsOf(options: RuntimesOptions): RuntimesSettings {
  const {
    runtimes,
    pool,
    onFault = () => undefined,
    timing = systemTiming,
    random = Math.random,
    packages = [],
  } = options
  const kinds = runtimes.map(({ kind }) => kind)
  const { issues, profiles, maxLimits } = readShared(options, kinds)
  refuse('options of runtimes', [...runtimesCheck.issues(options, ''), ...kindIssues(kinds), ...issues])
  return {
    cheapestFirst: runtimes.toSorted((one, other) => one.cost - other.cost),
    profiles,
    limits: { ...defaultLimits, ...stated(options.limits) },
    maxLimits,
    pool: pool === false ? undefined : { ...defaultPools, ...stated(pool) },
    onFault,
    timing,
    random,
    packages,
  }
}

/** Checks that span several options: profiles, limits within their maxima, and the bounds of the pool. */
function readShared(
  { profiles, limits, maxLimits: most, pool }: Omit<RuntimesOptions, 'runtimes' | 'packages'>,
  kinds: readonly string[],
) {
  const maxLimits: SandboxLimits = { ...defaultMaxima, ...stated(most) }
  const read = readProfiles(profiles, { maxima: maxLimits, kinds })
  const issues: readonly Issue[] = [
    ...limitIssues(most, '/maxLimits', absoluteMaxima),
    ...limitIssues(limits, '/limits', maxLimits),
    ...read.issues,
    ...poolIssues(pool),
  ]
  return { issues, maxLimits, profiles: read.profiles }
}

function kindIssues(kinds: readonly string[]): Issue[] {
  return kinds.flatMap((kind, index): Issue[] =>
    kinds.indexOf(kind) === index
      ? []
      : [{ path: `/runtimes/${index}`, message: `is a second runtime called ${kind}` }],
  )
}

function poolIssues(pool: RuntimesOptions['pool']): Issue[] {
  if (pool === undefined || pool === false || !poolCheck.fits(pool)) return []
  const { min, max } = { ...defaultPools, ...stated(pool) }
  return min > max ? [{ path: '/pool/min', message: `must be at most max (${max})` }] : []
}

/** The options without undefined members. */
function stated<T extends object>(given: T | undefined): T | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T
}

/** Sandbox options of an executor; all are optional. */
export interface SandboxOptions extends Omit<RuntimesOptions, 'runtimes' | 'packages'>, PackageOptions {
  /** Runtimes in addition to `process`, `wasm` and `unsafe_host`; one of the same kind replaces it. */
  readonly use?: readonly Runtime[]
  /** Host folder for sandbox files; a private folder under the system's temporary folder when absent. */
  readonly root?: string
  /** A folder with a root file system (`usr`, `bin`, `etc` …) for the process runtime, replacing the host's programs. */
  readonly rootfs?: string
  /** Further host folders that the process runtime mounts read-only under the same path. */
  readonly readOnlyFolders?: readonly string[]
  /** Processors that a sandbox may use at a time; 1 when absent. */
  readonly processors?: number
  /** Lifetimes and limits of sessions. */
  readonly sessions?: Omit<SessionsOptions, 'timing'>
  /** Languages that are added to the built-in ones or replace them. */
  readonly languages?: readonly LanguageRow[]
}

/** All runtimes combined, with their languages and sessions. */
export interface SandboxRuntimes extends Runtimes {
  readonly languages: Languages
  /** Interpreters that keep their state; they end with the runtimes. */
  readonly sessions: Sessions
}

const ownKinds = ['wasm', 'process', 'unsafe_host'] as const

const folder = { type: 'string', minLength: 1, description: 'the path of a folder' }
const members: OptionsShape<SandboxOptions>['members'] = {
  use: runtimesList,
  root: folder,
  rootfs: folder,
  readOnlyFolders: { type: 'array', items: folder },
  processors: { type: 'number', exclusiveMinimum: 0, maximum: 1_024, description: 'above 0' },
  ...packageChecks,
  packagesFolder: folder,
  languages: part(Array.isArray, 'a list of languages', { type: 'array', items: { type: 'object' } }),
  sessions: true,
  ...shared,
}

/** Checks options of sandboxes without touching the host. Throws CONFIG_INVALID with the path of each invalid one. */
export type SandboxOptionsCheck = (options: SandboxOptions) => void

export const checkSandboxOptions: SandboxOptionsCheck = sandboxOptionsCheck({})

/** The schema of these options, with what other code checks. */
export function sandboxSchema(drivers: { readonly [kind: string]: Check }): JsonSchema {
  const { use: _use, ...data } = members
  const schemas = { profiles: profilesSchema, limits: limitsSchema, maxLimits: limitsSchema }
  const check = optionsCheck<object>({
    members: { ...data, ...drivers, ...schemas, sessions: sessionsCheck },
  })
  return check.schema ?? true
}

/** The check of options that configure further runtimes, each under its kind. */
export function sandboxOptionsCheck(drivers: { readonly [kind: string]: Check }): SandboxOptionsCheck {
  const check = optionsCheck<SandboxOptions>({ members: { ...members, ...drivers } })
  return (options) => {
    checkOptions('options of sandboxes', check, options)
    const { use = [], sessions } = options
    checkSessionsOptions(sessions)
    const configured = Object.entries(options).flatMap(([key, value]) =>
      Object.hasOwn(drivers, key) && value !== undefined ? [key] : [],
    )
    const kinds = new Set([...ownKinds, ...configured, ...use.map(({ kind }) => kind)])
    refuse('options of sandboxes', readShared(options, [...kinds]).issues)
  }
}
