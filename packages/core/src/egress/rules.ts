import { isIP } from 'node:net'
import type { Issue } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { flag, part, ruled } from '../options/option.ts'
import { optionsCheck, refuse } from '../options/options.ts'
import type { EgressRule } from './egress.ts'
import { type Target, targetOf } from './target.ts'

/** A parsed rule. */
export interface Rule {
  readonly scheme: 'http' | 'https'
  /** Without the `*.` when `below` is set. */
  readonly host: string
  /** Matches any name below the host, and not the host itself. */
  readonly below: boolean
  readonly port: number
  readonly methods: ReadonlySet<string> | undefined
  readonly private: boolean
}

/** Whether a target may be reached, and whether its address may be private. */
export type Verdict = { readonly allowed: true; readonly private: boolean } | { readonly allowed: false }

const check = optionsCheck<EgressRule>({
  members: {
    origin: ruled((origin) => {
      const read = parseOrigin(origin)
      return typeof read === 'string' ? read : undefined
    }, 'a string such as "https://api.example.com"'),
    methods: part(isMethods, 'a list of HTTP methods in capitals, such as ["GET"]'),
    private: flag,
  },
  required: ['origin'],
})

/** Parses rules; throws CONFIG_INVALID with the path of each invalid one. */
export function parseRules(allow: unknown, path: string): readonly Rule[] {
  const issues: Issue[] = []
  const list: readonly unknown[] = Array.isArray(allow) ? allow : []
  if (!Array.isArray(allow)) issues.push({ path, message: 'must be a list of origins' })
  const rules = list.map((item, index) => parseRule(item, `${path}/${index}`, issues))
  refuse('egress rules', issues)
  return rules.filter((rule) => rule !== undefined)
}

/** Checks a request against the rules; without a method, as for a raw connection, a rule with `methods` does not match. */
export function judge(rules: readonly Rule[], target: Target, method: string | undefined): Verdict {
  let verdict: Verdict = { allowed: false }
  for (const rule of rules) {
    if (!covers(rule, target) || !(rule.methods === undefined || has(rule, method))) continue
    if (rule.private) return { allowed: true, private: true }
    verdict = { allowed: true, private: false }
  }
  return verdict
}

/** Whether a rule matches a target, for some method. */
export function covers(rule: Rule, { scheme, host, port }: Target): boolean {
  if (rule.scheme !== scheme || rule.port !== port) return false
  return rule.below ? host.endsWith(`.${rule.host}`) : host === rule.host
}

function has({ methods }: Rule, method: string | undefined): boolean {
  return method !== undefined && methods?.has(method) === true
}

function parseRule(item: unknown, path: string, issues: Issue[]): Rule | undefined {
  const rule = typeof item === 'string' ? { origin: item } : item
  if (!isObject(rule)) {
    issues.push({ path, message: 'must be an origin such as "https://api.example.com", or an object with one' })
    return undefined
  }
  const found = check.issues(rule, path)
  issues.push(...found)
  const origin = parseOrigin(rule.origin)
  if (found.length > 0 || typeof origin === 'string') return undefined
  const { methods } = rule
  return { ...origin, methods: isMethods(methods) ? new Set(methods) : undefined, private: rule.private === true }
}

type Origin = Pick<Rule, 'scheme' | 'host' | 'below' | 'port'>

/** The parsed origin of a rule, or why it is invalid. */
function parseOrigin(origin: unknown): Origin | string {
  if (typeof origin !== 'string') return 'must be a string such as "https://api.example.com"'
  const [, scheme = '', rest = ''] = /^(https?):\/\/([^/?#@\\\s]+)$/i.exec(origin) ?? []
  if (rest === '') return originFault(origin)
  const below = rest.startsWith('*.')
  const host = below ? rest.slice(2) : rest
  if (host.includes('*')) return 'may have one "*." only, at the start of the host'
  const url = URL.parse(`${scheme}://${host}`)
  const target = url === null ? undefined : targetOf(url)
  if (target === undefined || target.port === 0) return originFault(origin)
  if (below && (!target.host.includes('.') || isIP(target.host) !== 0)) {
    return 'needs a name with a dot behind "*.", such as "https://*.example.com"'
  }
  return { scheme: target.scheme, host: target.host, below, port: target.port }
}

/** An error with an example of a valid origin. */
function originFault(origin: string): string {
  const url = URL.parse(origin)
  const target = url === null ? undefined : targetOf(url)
  const better = target === undefined ? 'https://api.example.com' : target.origin
  return `must be only scheme, host and port, without user, path or query, such as "${better}"`
}

function isMethods(value: unknown): value is readonly string[] {
  const method = (item: unknown): boolean => typeof item === 'string' && /^[A-Z][A-Z-]{0,30}$/.test(item)
  return Array.isArray(value) && value.length > 0 && value.every(method)
}
