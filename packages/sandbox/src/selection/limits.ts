import type { Issue, JsonSchema, SandboxLimit, SandboxLimits, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { refusal, unknownMembers } from '@gantry/core/internal/options/options'

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

/** Upper bounds of configured maxima; Node's timers overflow above the first and fire at once. */
export const absoluteMaxima: SandboxLimits = {
  wallMs: 2_147_483_647,
  cpuMs: 2_147_483_647,
  memoryBytes: Number.MAX_SAFE_INTEGER,
  pids: 4_194_304,
  diskBytes: Number.MAX_SAFE_INTEGER,
  stdoutBytes: 1_024 * mebibyte,
  stderrBytes: 1_024 * mebibyte,
}

/** Below these no sandbox starts; a tmpfs of size 0 would even be unlimited. */
const minima: SandboxLimits = {
  wallMs: 1,
  cpuMs: 1,
  memoryBytes: 8 * mebibyte,
  pids: 1,
  diskBytes: 65_536,
  stdoutBytes: 0,
  stderrBytes: 0,
}

export const limitNames: readonly SandboxLimit[] = [
  'wallMs',
  'cpuMs',
  'memoryBytes',
  'pids',
  'diskBytes',
  'stdoutBytes',
  'stderrBytes',
]

/** The schema of limits as they are configured; `limitIssues` also compares them with each other. */
export const limitsSchema: JsonSchema = {
  type: 'object',
  properties: Object.fromEntries(
    limitNames.map((name) => [name, { type: 'integer', minimum: minima[name], maximum: absoluteMaxima[name] }]),
  ),
  additionalProperties: false,
}

/**
 * The limits of one run: requested limits unchanged, defaults for the rest, capped at the maxima. The workspace is in
 * memory, so its default is at most half of the memory limit.
 * - Errors: INPUT_INVALID with the path of each limit that is unknown, out of range or inconsistent with another.
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
  if (!isObject(limits)) return [{ path, message: 'must be an object of limits' }]
  const issues = [
    ...limitNames.flatMap((name) => rangeIssue(name, limits[name], path, maxima)),
    ...unknownMembers(limits, limitNames, path, 'a limit'),
  ]
  const { diskBytes, memoryBytes } = limits
  if (issues.length > 0 || typeof diskBytes !== 'number' || typeof memoryBytes !== 'number') return issues
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
  return refusal('limits', issues, 'INPUT_INVALID')
}
