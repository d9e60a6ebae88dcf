import { type Issue, type SandboxLimit, type SandboxLimits, ToolError } from '@gantry/contract'
import { unknownKeys } from '@gantry/core/internal/search/near'

const mebibyte = 1_048_576

/** Limits of a run when neither request, profile nor configuration sets them. */
export const defaultLimits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 512 * mebibyte,
  pids: 64,
  diskBytes: 64 * mebibyte,
  stdoutBytes: mebibyte,
  stderrBytes: mebibyte,
}

/** Maxima of a request when the configuration sets none. */
export const defaultMaxima: SandboxLimits = {
  wallMs: 3_600_000,
  cpuMs: 3_600_000,
  memoryBytes: 4_096 * mebibyte,
  pids: 1_024,
  diskBytes: 4_096 * mebibyte,
  stdoutBytes: 16 * mebibyte,
  stderrBytes: 16 * mebibyte,
}

/** What maxima may be set to; Node's timers overflow beyond the first, and fire at once. */
export const absoluteMaxima: SandboxLimits = {
  wallMs: 2_147_483_647,
  cpuMs: 2_147_483_647,
  memoryBytes: Number.MAX_SAFE_INTEGER,
  pids: 4_194_304,
  diskBytes: Number.MAX_SAFE_INTEGER,
  stdoutBytes: 1_024 * mebibyte,
  stderrBytes: 1_024 * mebibyte,
}

/** Below these no sandbox starts; a disk of 0 would even mean one without a limit to the kernel. */
const minima: SandboxLimits = {
  wallMs: 1,
  cpuMs: 1,
  memoryBytes: 8 * mebibyte,
  pids: 1,
  diskBytes: 65_536,
  stdoutBytes: 0,
  stderrBytes: 0,
}

export const limitNames = Object.keys(defaultLimits) as readonly SandboxLimit[]

/**
 * The limits of one run: what was asked for, as it was asked, and defaults for the rest, cut to the maxima. Files of the
 * workspace lie in memory, so the default for them is at most half of it.
 * - Errors: INPUT_INVALID with the path of each limit that is unknown, out of range or at odds with another.
 */
export function resolveLimits(
  asked: Partial<SandboxLimits>,
  defaults: SandboxLimits = defaultLimits,
  maxima: SandboxLimits = defaultMaxima,
): SandboxLimits {
  const issues = limitIssues(asked, '/limits', maxima)
  if (issues.length > 0) throw invalid(issues)
  const { memoryBytes, ...rest } = fill(asked, defaults, maxima)
  const diskBytes = asked.diskBytes ?? Math.min(rest.diskBytes, Math.floor(memoryBytes / 2))
  if (diskBytes > memoryBytes) throw invalid([diskIssue('/limits', memoryBytes)])
  return { ...rest, memoryBytes, diskBytes }
}

/** Issues of configured limits; none when they are absent. */
export function limitIssues(limits: unknown, path: string, maxima: SandboxLimits): Issue[] {
  if (limits === undefined) return []
  if (typeof limits !== 'object' || limits === null || Array.isArray(limits)) {
    return [{ path, message: 'must be an object of limits' }]
  }
  const given: { readonly [name: string]: unknown } = { ...limits }
  const issues = [
    ...limitNames.flatMap((name) => rangeIssue(name, given[name], path, maxima)),
    ...unknownKeys(limits, limitNames, path, 'is not a limit'),
  ]
  const { diskBytes, memoryBytes } = limits as Partial<SandboxLimits>
  if (issues.length > 0 || diskBytes === undefined || memoryBytes === undefined) return issues
  return diskBytes > memoryBytes ? [diskIssue(path, memoryBytes)] : []
}

function rangeIssue(name: SandboxLimit, value: unknown, path: string, maxima: SandboxLimits): Issue[] {
  const [least, most] = [minima[name], maxima[name]]
  if (value === undefined || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)) return []
  return [{ path: `${path}/${name}`, message: `must be a whole number from ${least} to ${most}` }]
}

function diskIssue(path: string, memoryBytes: number): Issue {
  const message = `must be at most memoryBytes (${memoryBytes}), because the workspace lies in memory`
  return { path: `${path}/diskBytes`, message }
}

function fill(asked: Partial<SandboxLimits>, defaults: SandboxLimits, maxima: SandboxLimits): SandboxLimits {
  const filled = limitNames.map((name) => [name, asked[name] ?? Math.min(defaults[name], maxima[name])] as const)
  return Object.fromEntries(filled) as Record<SandboxLimit, number>
}

function invalid(issues: readonly Issue[]): ToolError {
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  return new ToolError('INPUT_INVALID', `The limits cannot be had: ${text}.`, { details: { issues } })
}
