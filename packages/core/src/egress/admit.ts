import { ToolError } from '@gantry/contract'
import { createRateLimits } from '../resilience/rate-limits.ts'
import type { EgressAllow, EgressScope } from './egress.ts'
import type { EgressSettings } from './options.ts'
import type { Report } from './report.ts'
import { covers, judge, parseRules, type Rule } from './rules.ts'
import { type Target, targetOf } from './target.ts'

/** What may go out, for whom, and whether its address may be private. */
export interface Admitted {
  readonly owner: string
  readonly target: Target
  readonly private: boolean
}

/** Decides by the rules, before any name is looked up. */
export interface Admission {
  /** Admits a request, or throws EGRESS_DENIED or RATE_LIMITED. */
  request(url: URL, method: string, scope: EgressScope): Admitted
  /** Admits a raw connection, over which anything can be sent: a rule for some methods does not do. */
  connection(target: Target, scope: EgressScope): Admitted
  /** Replaces the rules, also for those who have been asking without any. */
  setRules(allow: EgressAllow): void
  /** Whether the rules that were set would still let an open connection come about; `raw` when it is not for HTTP. */
  stillAdmits(admitted: Admitted, raw: boolean): boolean
}

/** They carry other requests inside (CONNECT) or send credentials back (TRACE). */
const forbiddenMethods = new Set(['CONNECT', 'TRACE', 'TRACK'])

export function createAdmission(settings: EgressSettings, report: Report): Admission {
  let { rules } = settings
  const rates = settings.rate === undefined ? undefined : createRateLimits(settings.rate)
  const parsed = new WeakMap<object, readonly Rule[]>()
  let last: Place | undefined

  const rulesOf = (allow: EgressAllow, path: string): readonly Rule[] => {
    const known = parsed.get(allow)
    if (known !== undefined) return known
    const made = parseRules(allow, path)
    parsed.set(allow, made)
    return made
  }
  const admit = (target: Target, method: string | undefined, scope: EgressScope): Admitted => {
    const { origin } = target
    const refuse = (reason: string, message: string): ToolError => {
      report(scope.owner, target, { outcome: 'refused', reason })
      return new ToolError('EGRESS_DENIED', message)
    }
    const verdict = judge(rules ?? rulesOf(scope.own ?? [], '/own'), target, method)
    if (!verdict.allowed) {
      const what = method === undefined ? 'a connection' : `a ${method} request`
      const known = rules?.find((rule) => covers(rule, target))
      const add =
        known === undefined ? `Add "${origin}" to egress.allow` : `Its rule in egress.allow names other methods`
      throw refuse('no rule allows it', `No rule allows ${what} to ${origin}. ${add}.`)
    }
    if (scope.only !== undefined && !judge(rulesOf(scope.only, '/only'), target, method).allowed) {
      const message = `The tool may reach only what it names, and ${origin} is not there. Add "${origin}" to its egress.`
      throw refuse('the tool does not name it', message)
    }
    try {
      rates?.take(origin)
    } catch (error) {
      report(scope.owner, target, { outcome: 'refused', reason: 'too many requests' })
      throw error
    }
    return { owner: scope.owner, target, private: verdict.private }
  }
  return {
    request(url, method, scope) {
      // Most requests go where the one before went; all that is kept of it follows from its text.
      if (last === undefined || last.href !== url.href) last = placeOf(url)
      const { target } = last
      const fault = last.fault ?? (forbiddenMethods.has(method) ? `the method ${method}` : undefined)
      if (target !== undefined && fault === undefined) return admit(target, method, scope)
      const place = target ?? { scheme: url.protocol.slice(0, -1), host: url.hostname, port: 0 }
      report(scope.owner, place, { outcome: 'refused', reason: `${fault}` })
      throw new ToolError('EGRESS_DENIED', `A request with ${fault} may not go out.`)
    },
    connection: (target, scope) => admit(target, undefined, scope),
    setRules(allow) {
      rules = parseRules(allow, '/egress/allow')
    },
    stillAdmits: ({ target, private: leads }, raw) =>
      (rules ?? []).some(
        (rule) => covers(rule, target) && (rule.private || !leads) && (rule.methods === undefined || !raw),
      ),
  }
}

/** A URL as it is judged. */
interface Place {
  readonly href: string
  readonly target: Target | undefined
  /** What no rule can allow, whatever the target. */
  readonly fault: string | undefined
}

function placeOf(url: URL): Place {
  const { href } = url
  const target = targetOf(url)
  if (target === undefined) return { href, target, fault: `the scheme ${url.protocol.slice(0, -1)}` }
  const named = url.username !== '' || url.password !== ''
  return { href, target, fault: named ? 'a user or a password in its URL' : undefined }
}
