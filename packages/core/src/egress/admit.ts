import { ToolError } from '@gantry/contract'
import { createRateLimits } from '../resilience/rate-limit.ts'
import type { EgressAllow, EgressEvent, EgressScope } from './egress.ts'
import type { EgressSettings } from './options.ts'
import { covers, judge, parseRules, type Rule } from './rules.ts'
import { type Target, targetOf } from './target.ts'

/** An admitted request or connection: its owner, its target, and whether the address may be private. */
export interface Admitted {
  readonly owner: string
  readonly target: Target
  readonly private: boolean
  /** Admitted by the list of its scope (`instead`), so rule changes do not affect it. */
  readonly listed?: true
}

/** Checks requests against the rules, before any DNS lookup. */
export interface Admission {
  /** Admits a request, or throws EGRESS_DENIED or RATE_LIMITED. */
  request(url: URL, method: string, scope: EgressScope): Admitted
  /** Like `request`, without spending the rate limit. */
  check(url: URL, method: string, scope: EgressScope): Admitted
  /** Admits a raw connection. It can carry any method, so a rule with `methods` does not admit it. */
  connection(target: Target, scope: EgressScope): Admitted
  /** Replaces the rules, also when there were none. */
  setRules(allow: EgressAllow): void
  /** Whether the current rules still allow an open connection; `raw` when it does not carry HTTP. */
  stillAdmits(admitted: Admitted, raw: boolean): boolean
}

/** CONNECT tunnels other requests, and TRACE echoes credentials. */
const forbiddenMethods = new Set(['CONNECT', 'TRACE', 'TRACK'])

export function createAdmission(settings: EgressSettings, report: Report): Admission {
  let { rules } = settings
  const rates = settings.rate === undefined ? undefined : createRateLimits(settings.rate)
  const parsed = new WeakMap<object, readonly Rule[]>()
  let last: JudgedUrl | undefined

  const rulesOf = (allow: EgressAllow, path: string): readonly Rule[] => {
    const known = parsed.get(allow)
    if (known !== undefined) return known
    const made = parseRules(allow, path)
    parsed.set(allow, made)
    return made
  }
  const judged = (target: Target, method: string | undefined, scope: EgressScope): Admitted => {
    const { origin } = target
    const { owner, own = [], instead, publicOnly } = scope
    const refuse = (reason: string, message: string): ToolError => {
      report(owner, target, { outcome: 'refused', reason })
      return new ToolError('EGRESS_DENIED', message)
    }
    const all = instead === undefined ? (rules ?? rulesOf(own, '/own')) : rulesOf(instead, '/instead')
    const verdict = judge(publicOnly === true ? all.filter((rule) => !rule.private) : all, target, method)
    if (!verdict.allowed) {
      const what = method === undefined ? 'a connection' : `a ${method} request`
      throw refuse(
        'no rule allows it',
        `No rule allows ${what} to ${origin}. ${adviceFor(target, method, scope, rules)}.`,
      )
    }
    if (scope.only !== undefined && !judge(rulesOf(scope.only, '/only'), target, method).allowed) {
      const { onlyName: list = 'the egress list of the tool' } = scope
      const message = `${origin} is not on ${list}. Add "${origin}" to it.`
      throw refuse('not in the egress list of the tool', message)
    }
    const admitted = { owner, target, private: verdict.private }
    return instead === undefined ? admitted : { ...admitted, listed: true }
  }
  const admit = (target: Target, method: string | undefined, scope: EgressScope): Admitted => {
    const admitted = judged(target, method, scope)
    try {
      rates?.take(target.origin)
    } catch (error) {
      report(scope.owner, target, { outcome: 'refused', reason: 'too many requests' })
      throw error
    }
    return admitted
  }
  /** The target of a request; throws EGRESS_DENIED for a scheme, method or URL that no rule can allow. */
  const targetFor = (url: URL, method: string, { owner }: EgressScope): Target => {
    // Consecutive requests often have the same URL, and the cached verdict depends on its text alone.
    if (last === undefined || last.href !== url.href) last = judgedUrl(url)
    const { target } = last
    const fault = last.fault ?? (forbiddenMethods.has(method) ? `the method ${method}` : undefined)
    if (target !== undefined && fault === undefined) return target
    const place = target ?? { scheme: url.protocol.slice(0, -1), host: url.hostname, port: 0 }
    report(owner, place, { outcome: 'refused', reason: `${fault}` })
    throw new ToolError('EGRESS_DENIED', `Egress refuses a request with ${fault}.`)
  }
  return {
    request: (url, method, scope) => admit(targetFor(url, method, scope), method, scope),
    check: (url, method, scope) => judged(targetFor(url, method, scope), method, scope),
    connection: (target, scope) => admit(target, undefined, scope),
    setRules(allow) {
      rules = parseRules(allow, '/egress/allow')
    },
    stillAdmits: ({ target, private: leads, listed }, raw) =>
      listed === true ||
      (rules ?? []).some(
        (rule) => covers(rule, target) && (rule.private || !leads) && (rule.methods === undefined || !raw),
      ),
  }
}

/** The remedy for a target that no rule allows. */
function adviceFor(
  target: Target,
  method: string | undefined,
  { instead, publicOnly }: EgressScope,
  rules: readonly Rule[] = [],
): string {
  if (instead !== undefined) return 'It is not on the list of origins that this call may reach'
  const known = rules.filter((rule) => covers(rule, target))
  if (known.length === 0) return `Add "${target.origin}" to egress.allow`
  const held = publicOnly === true && known.every((rule) => rule.private)
  if (held) return 'Its rule in egress.allow is for private addresses'
  if (method === undefined) return 'Its rule in egress.allow lists methods, which a tunnel cannot be held to'
  return `Its rule in egress.allow lists other methods; add "${method}" to its methods`
}

/** A URL and the part of its verdict that does not depend on the rules. */
interface JudgedUrl {
  readonly href: string
  readonly target: Target | undefined
  /** Why no rule can allow it. */
  readonly fault: string | undefined
}

function judgedUrl(url: URL): JudgedUrl {
  const { href } = url
  const target = targetOf(url)
  if (target === undefined) return { href, target, fault: `the scheme ${url.protocol.slice(0, -1)}` }
  const named = url.username !== '' || url.password !== ''
  return { href, target, fault: named ? 'a user or a password in its URL' : undefined }
}

/** Emits the event of one attempt. */
export type Report = (
  owner: string,
  target: Pick<Target, 'host' | 'port'> & { readonly scheme: string },
  end: Pick<EgressEvent, 'outcome' | 'address' | 'reason'>,
) => void

/** A report that ignores errors of the listener. */
export function createReport(onEvent: ((event: EgressEvent) => void) | undefined): Report {
  return (owner, { scheme, host, port }, end) => {
    try {
      onEvent?.({ owner, scheme, host, port, ...end })
    } catch {
      // A listener that throws must not fail the connection.
    }
  }
}
