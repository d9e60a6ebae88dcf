import { isIP } from 'node:net'
import { type Issue, ToolError } from '@gantry/contract'
import { isObject } from '../json/kinds.ts'
import { didYouMean } from '../search/near.ts'
import { type Target, targetOf } from './target.ts'

/** A rule as it is compared. */
export interface Rule {
  readonly scheme: 'http' | 'https'
  /** Without the `*.` when `below` is set. */
  readonly host: string
  /** Whether any name below the host is meant, and not the host itself. */
  readonly below: boolean
  readonly port: number
  readonly methods: ReadonlySet<string> | undefined
  readonly private: boolean
}

/** Whether a target may be reached, and whether its address may be private. */
export type Verdict = { readonly allowed: true; readonly private: boolean } | { readonly allowed: false }

const keys = ['origin', 'methods', 'private']

/** Parses rules, or throws CONFIG_INVALID with the path of each one that is wrong. */
export function parseRules(allow: unknown, path: string): readonly Rule[] {
  const issues: Issue[] = []
  const list: readonly unknown[] = Array.isArray(allow) ? allow : []
  if (!Array.isArray(allow)) issues.push({ path, message: 'must be a list of origins' })
  const rules = list.map((item, index) => parseRule(item, `${path}/${index}`, issues))
  if (issues.length > 0) {
    const text = issues.map((issue) => `${issue.path} ${issue.message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `An egress rule is wrong: ${text}.`, { details: { issues } })
  }
  return rules.filter((rule) => rule !== undefined)
}

/** Judges a request by the rules; without a method, as for a raw connection, a rule for some methods does not count. */
export function judge(rules: readonly Rule[], target: Target, method: string | undefined): Verdict {
  let verdict: Verdict = { allowed: false }
  for (const rule of rules) {
    if (!covers(rule, target) || !(rule.methods === undefined || has(rule, method))) continue
    if (rule.private) return { allowed: true, private: true }
    verdict = { allowed: true, private: false }
  }
  return verdict
}

/** Whether a rule speaks of this target, whatever the method. */
export function covers(rule: Rule, { scheme, host, port }: Target): boolean {
  if (rule.scheme !== scheme || rule.port !== port) return false
  return rule.below ? host.endsWith(`.${rule.host}`) : host === rule.host
}

function has({ methods }: Rule, method: string | undefined): boolean {
  return method !== undefined && methods?.has(method) === true
}

function parseRule(item: unknown, path: string, issues: Issue[]): Rule | undefined {
  const before = issues.length
  const rule = typeof item === 'string' ? { origin: item } : item
  if (!isObject(rule)) {
    issues.push({ path, message: 'must be an origin such as "https://api.example.com", or an object with one' })
    return undefined
  }
  for (const key of Object.keys(rule)) {
    if (!keys.includes(key))
      issues.push({ path: `${path}/${key}`, message: `is not an option${didYouMean(key, keys)}` })
  }
  const { methods } = rule
  if (methods !== undefined && !isMethods(methods)) {
    issues.push({ path: `${path}/methods`, message: 'must be a list of HTTP methods in capitals, such as ["GET"]' })
  }
  if (rule.private !== undefined && typeof rule.private !== 'boolean') {
    issues.push({ path: `${path}/private`, message: 'must be true or false' })
  }
  const origin = parseOrigin(rule.origin)
  if (typeof origin === 'string') issues.push({ path: `${path}/origin`, message: origin })
  if (issues.length > before || typeof origin === 'string') return undefined
  return { ...origin, methods: isMethods(methods) ? new Set(methods) : undefined, private: rule.private === true }
}

type Origin = Pick<Rule, 'scheme' | 'host' | 'below' | 'port'>

/** The origin of a rule, or what is wrong with it. */
function parseOrigin(origin: unknown): Origin | string {
  if (typeof origin !== 'string') return 'must be a text such as "https://api.example.com"'
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

/** Says what to write instead. */
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
