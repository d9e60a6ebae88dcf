import { ToolError } from '@gantry/contract'

/**
 * What an answer of Proxmox means for the caller.
 * - `locked`: another task has the container or its configuration; it passes.
 * - `exists`: the id of a new container is taken.
 * - `absent`: there is no such container.
 * - `denied`, `unauthenticated`: the token lacks a privilege, or is not accepted.
 * - `unreachable`: no answer, so that it is unknown whether the request was carried out.
 * - `other`: everything else.
 */
export type ApiProblem = 'locked' | 'exists' | 'absent' | 'denied' | 'unauthenticated' | 'unreachable' | 'other'

const longestText = 500

/** Proxmox tells what is wrong in words alone; each of these is in its source (PVE::AbstractConfig, PVE::Cluster, PVE::Tools). */
const patterns: readonly (readonly [ApiProblem, RegExp])[] = [
  ['exists', /\b(?:CT|VM) \d+ already exists\b|config file already exists/i],
  ['locked', /\b(?:CT|VM) is locked\b|can't lock file|trying to acquire (?:cfs )?lock|got lock request timeout/i],
  ['absent', /Configuration file '[^']*' does not exist|\b(?:CT|VM) \d+ does not exist|no such (?:CT|VM)\b/i],
]

/** The problem that a status and a text of Proxmox name. */
export function problemOfAnswer(status: number, text: string): ApiProblem {
  if (status === 401) return 'unauthenticated'
  if (status === 403) return 'denied'
  return patterns.find(([, pattern]) => pattern.test(text))?.[0] ?? 'other'
}

/** Text of the API for an error: short, printable, on one line. */
export function printable(text: string): string {
  return text
    .slice(0, longestText)
    .replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .trim()
}

const remedies: { readonly [Problem in ApiProblem]: string } = {
  locked: 'Wait for the task that holds the lock, or release a stale one on the node with `pct unlock`.',
  exists: 'Give Gantry a range of ids that nothing else uses in runtimes.proxmox.vmids.',
  absent: 'Compare node and template of runtimes.proxmox with the containers of the node.',
  denied: 'Give the token the privileges of docs/runtimes/proxmox-lxc.md on the path that the message names.',
  unauthenticated: 'Compare tokenId and token of runtimes.proxmox; the token may have expired or been removed.',
  unreachable: 'Start Proxmox VE, or correct runtimes.proxmox.url.',
  other: 'Correct that on the node, then run `gantry doctor`.',
}

/** RUNTIME_UNAVAILABLE with what Proxmox said, its remedy and the problem in its details. */
export function apiError(
  problem: ApiProblem,
  reason: string,
  { cause, remedy = remedies[problem] }: { readonly cause?: unknown; readonly remedy?: string } = {},
): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, {
    details: { reason, remedy, problem },
    retryable: problem === 'locked' || problem === 'exists' || problem === 'unreachable',
    effect: 'none',
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The problem of an error that `apiError` made; undefined for any other. */
export function problemOf(error: unknown): ApiProblem | undefined {
  if (!ToolError.is(error)) return undefined
  const { problem } = { ...error.details } as { readonly problem?: unknown }
  return typeof problem === 'string' && Object.hasOwn(remedies, problem) ? (problem as ApiProblem) : undefined
}
