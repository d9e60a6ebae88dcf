import { type Issue, type SandboxLimits, ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { unknownKeys } from '@gantry/core/internal/search/near'
import type { LanguageRow, Languages } from '../languages/languages.ts'
import { defaultPools, type PoolFault, type PoolsSettings } from '../pools/pools.ts'
import { systemTiming, type Timing } from '../pools/timing.ts'
import { absoluteMaxima, defaultLimits, defaultMaxima, limitIssues } from '../selection/limits.ts'
import { type Profile, type ProfileOptions, readProfiles } from '../selection/profiles.ts'
import { checkSessionsOptions, type Sessions, type SessionsOptions } from '../sessions/sessions.ts'

/** How runtimes are put together; all but the runtimes may be left out. */
export interface RuntimesOptions {
  /** Each kind once. Closed with what is made of them. */
  readonly runtimes: readonly Runtime[]
  /** Over the built-in profiles, or beside them. */
  readonly profiles?: { readonly [name: string]: ProfileOptions }
  /** What a run may use when neither it nor its profile says. */
  readonly limits?: Partial<SandboxLimits>
  /** What a run may ask for. */
  readonly maxLimits?: Partial<SandboxLimits>
  /** Sandboxes started ahead: by demand when absent, none when false. */
  readonly pool?: false | Partial<PoolsSettings>
  /** Hears of sandboxes that could not be started ahead, or did not last; what it throws is ignored. */
  readonly onFault?: (fault: PoolFault) => void
  readonly timing?: Timing
  /** Source of randomness for the delay before another start. */
  readonly random?: () => number
}

/** Options with everything filled in. */
export interface RuntimesSettings {
  readonly cheapestFirst: readonly Runtime[]
  readonly profiles: ReadonlyMap<string, Profile>
  readonly limits: SandboxLimits
  readonly maxLimits: SandboxLimits
  readonly pool: PoolsSettings | undefined
  readonly onFault: (fault: PoolFault) => void
  readonly timing: Timing
  readonly random: () => number
}

const keys = ['runtimes', 'profiles', 'limits', 'maxLimits', 'pool', 'onFault', 'timing', 'random']
const unknown = 'is not an option'
/** Node's timers overflow beyond this, and fire at once. */
const longestMs = 2_147_483_647
const poolRanges: { readonly [Key in keyof PoolsSettings]: readonly [number, number] } = {
  min: [0, 1_024],
  max: [1, 1_024],
  maxTotal: [1, 4_096],
  maxMemoryBytes: [1, Number.MAX_SAFE_INTEGER],
  maxIdleMs: [1, longestMs],
}

/** Fills in what is missing, or throws CONFIG_INVALID with the path of each wrong option. */
export function settingsOf(options: RuntimesOptions): RuntimesSettings {
  const { runtimes, pool, onFault = () => undefined, timing = systemTiming, random = Math.random } = options
  const maxLimits = { ...defaultMaxima, ...stated(options.maxLimits) }
  const { profiles, issues } = readProfiles(options.profiles, {
    maxima: maxLimits,
    kinds: runtimes.map(({ kind }) => kind),
  })
  const faults = [
    ...unknownKeys(options, keys, '', unknown),
    ...kindIssues(runtimes),
    ...limitIssues(options.maxLimits, '/maxLimits', absoluteMaxima),
    ...limitIssues(options.limits, '/limits', maxLimits),
    ...issues,
    ...poolIssues(pool),
  ]
  if (faults.length > 0) {
    const text = faults.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `Runtimes were given wrong options: ${text}.`, {
      details: { issues: faults },
    })
  }
  return {
    cheapestFirst: runtimes.toSorted((one, other) => one.cost - other.cost),
    profiles,
    limits: { ...defaultLimits, ...stated(options.limits) },
    maxLimits,
    pool: pool === false ? undefined : { ...defaultPools, ...stated(pool) },
    onFault,
    timing,
    random,
  }
}

function kindIssues(runtimes: readonly Runtime[]): Issue[] {
  const kinds = runtimes.map(({ kind }) => kind)
  return kinds.flatMap((kind, index): Issue[] =>
    kinds.indexOf(kind) === index
      ? []
      : [{ path: `/runtimes/${index}`, message: `is a second runtime called ${kind}` }],
  )
}

function poolIssues(pool: unknown): Issue[] {
  if (pool === undefined || pool === false) return []
  if (typeof pool !== 'object' || pool === null || Array.isArray(pool)) {
    return [{ path: '/pool', message: 'must be false or an object' }]
  }
  const values: { readonly [key: string]: unknown } = { ...pool }
  const issues = Object.entries(poolRanges).flatMap(([key, [least, most]]): Issue[] => {
    const value = values[key]
    if (value === undefined || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)) return []
    return [{ path: `/pool/${key}`, message: `must be a whole number from ${least} to ${most}` }]
  })
  const { min, max } = { ...defaultPools, ...stated(pool as Partial<PoolsSettings>) }
  if (issues.length === 0 && min > max) issues.push({ path: '/pool/min', message: `must be at most max (${max})` })
  return [...unknownKeys(pool, Object.keys(poolRanges), '/pool', unknown), ...issues]
}

/** What was given, without what is undefined. */
function stated<T extends object>(given: T | undefined): T | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T
}

/** How the sandboxes of an executor are set up; all of it may be left out. */
export interface SandboxOptions extends Omit<RuntimesOptions, 'runtimes'> {
  /** Runtimes of your own, besides `process`, `wasm` and `unsafe_host`; one of the same kind takes its place. */
  readonly use?: readonly Runtime[]
  /** Where sandboxes keep what they need on the host; a private folder under the system's temporary one when absent. */
  readonly root?: string
  /** A folder with a system of its own (`usr`, `bin`, `etc` …) for the process runtime, instead of the host's programs. */
  readonly rootfs?: string
  /** Further folders of the host that programs of the process runtime see, read-only, under the same path. */
  readonly readOnlyFolders?: readonly string[]
  /** How many processors a sandbox may use at a time; one when absent. */
  readonly processors?: number
  /** How long interpreters that keep their state may last, and how many there may be. */
  readonly sessions?: Omit<SessionsOptions, 'timing'>
  /** Languages beside those that are built in, or in their place. */
  readonly languages?: readonly LanguageRow[]
}

/** All runtimes as one, with the languages and sessions that they serve. */
export interface SandboxRuntimes extends Runtimes {
  readonly languages: Languages
  /** Interpreters that keep their state; they end with the runtimes. */
  readonly sessions: Sessions
}

const ownKinds = ['wasm', 'process', 'unsafe_host'] as const

const sandboxKeys = [
  ...['use', 'root', 'rootfs', 'readOnlyFolders', 'processors', 'languages', 'sessions'],
  ...['profiles', 'limits', 'maxLimits', 'pool', 'onFault', 'timing', 'random'],
]

/** Throws CONFIG_INVALID for options that no sandbox could be made with; looks at nothing but the options. */
export function checkSandboxOptions(options: SandboxOptions): void {
  const issues = [...unknownKeys(options, sandboxKeys, '', 'is not an option'), ...shapeIssues(options)]
  if (issues.length === 0) {
    const {
      use = [],
      root: _root,
      rootfs: _system,
      readOnlyFolders: _seen,
      processors: _cores,
      languages: _own,
      sessions,
      ...rest
    } = options
    checkSessionsOptions(sessions)
    const kinds = [...new Set([...ownKinds, ...use.map(({ kind }) => kind)])]
    settingsOf({ ...rest, runtimes: kinds.map((kind) => ({ kind, cost: 0 }) as Runtime) })
    return
  }
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `Sandboxes were given wrong options: ${text}.`, { details: { issues } })
}

function shapeIssues({ use, root, rootfs, readOnlyFolders, processors, languages }: SandboxOptions): Issue[] {
  const isText = (value: unknown): boolean => typeof value === 'string' && value !== ''
  const checks: readonly (readonly [string, unknown, (value: unknown) => boolean, string])[] = [
    ['/use', use, (value) => Array.isArray(value) && value.every(isRuntime), 'must be a list of runtimes'],
    ['/root', root, isText, 'must be the path of a folder'],
    ['/rootfs', rootfs, isText, 'must be the path of a folder'],
    [
      '/readOnlyFolders',
      readOnlyFolders,
      (value) => Array.isArray(value) && value.every(isText),
      'must be a list of paths of folders',
    ],
    ['/processors', processors, (value) => typeof value === 'number' && value > 0 && value <= 1_024, 'must be above 0'],
    ['/languages', languages, Array.isArray, 'must be a list of languages'],
  ]
  return checks.flatMap(([path, value, fits, message]) =>
    value === undefined || fits(value) ? [] : [{ path, message }],
  )
}

function isRuntime(value: unknown): boolean {
  const { kind, open, probe } = (value ?? {}) as { kind?: unknown; open?: unknown; probe?: unknown }
  return typeof kind === 'string' && typeof open === 'function' && typeof probe === 'function'
}
