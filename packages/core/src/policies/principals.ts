import type { Issue } from '@gantry/contract'
import { readTexts, someText } from '../ids/text-list.ts'

/** Principals that a rule is about: the host's own names, so their case matters and any character may be in them. */
export interface Principals {
  /** Named whole. */
  readonly exact: ReadonlySet<string>
  /** Named by how they begin. */
  readonly prefixes: readonly string[]
  has(principal: string): boolean
}

const form = 'name principals, such as `alice` or `svc-*`, or leave it out to mean everyone'

/** Reads one principal or a list of them from outside; reports what is none. */
export function readPrincipals(value: unknown, path: string, issues: Issue[]): Principals {
  const one = typeof value === 'string' ? someText(value, path, issues) : undefined
  const all = typeof value === 'string' ? [] : readTexts(value, path, issues, form, someText)
  const patterns = one === undefined ? all : [one]
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith('*')))
  const prefixes = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1))
  return {
    exact,
    prefixes,
    has: (principal) => exact.has(principal) || prefixes.some((prefix) => principal.startsWith(prefix)),
  }
}
