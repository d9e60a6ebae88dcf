import { type Issue, ToolError } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { unknownKeys } from '@gantry/core/internal/search/near'
import type { LanguageRow, Languages } from '../languages/languages.ts'
import { checkSessionsOptions, type Sessions, type SessionsOptions } from '../sessions/sessions.ts'
import { type RuntimesOptions, settingsOf } from './options.ts'

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

/** All runtimes behind one door, and the languages that code for them may be in. */
export interface SandboxRuntimes extends Runtimes {
  readonly languages: Languages
  /** Interpreters that keep their state; they end with the runtimes. */
  readonly sessions: Sessions
}

export const ownKinds = ['wasm', 'process', 'unsafe_host'] as const

const keys = [
  ...['use', 'root', 'rootfs', 'readOnlyFolders', 'processors', 'languages', 'sessions'],
  ...['profiles', 'limits', 'maxLimits', 'pool', 'onFault', 'timing', 'random'],
]

/** Throws CONFIG_INVALID for options that no sandbox could be made with; looks at nothing but the options. */
export function checkSandboxOptions(options: SandboxOptions): void {
  const issues = [...unknownKeys(options, keys, '', 'is not an option'), ...shapeIssues(options)]
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
