import { ToolError } from '@gantry/contract'
import { createRateLimits } from '../resilience/rate-limit.ts'
import type { EgressAllow, EgressEvent, EgressScope } from './egress.ts'
import type { EgressSettings } from './options.ts'
import { covers, judge, parseRules, type Rule } from './rules.ts'
import { type Target, targetOf } from './target.ts'

/** What may go out, for whom, and whether its address may be private. */
export interface Admitted {
  readonly owner: string
  readonly target: Target
  readonly private: boolean
  /** It has a list of its own, so that the rules are not about it. */
  readonly listed?: true
}

/** Decides by the rules, before any name is looked up. */
export interface Admission {
  /** Admits a request, or throws EGRESS_DENIED or RATE_LIMITED. */
  request(url: URL, method: string, scope: EgressScope): Admitted
  /** The same without taking anything of a rate. */
  check(url: URL, method: string, scope: EgressScope): Admitted
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
      throw refuse('no rule allows it', `No rule allows ${what} to ${origin}. ${adviceFor(target, scope, rules)}.`)
    }
    if (scope.only !== undefined && !judge(rulesOf(scope.only, '/only'), target, method).allowed) {
      const message = `The tool may reach only what it names, and ${origin} is not there. Add "${origin}" to its egress.`
      throw refuse('the tool does not name it', message)
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
  /** Where a request goes, unless that is somewhere, or in a way, that no rule can allow. */
  const targetFor = (url: URL, method: string, { owner }: EgressScope): Target => {
    // Most requests go where the one before went; all that is kept of it follows from its text.
    if (last === undefined || last.href !== url.href) last = judgedUrl(url)
    const { target } = last
    const fault = last.fault ?? (forbiddenMethods.has(method) ? `the method ${method}` : undefined)
    if (target !== undefined && fault === undefined) return target
    const place = target ?? { scheme: url.protocol.slice(0, -1), host: url.hostname, port: 0 }
    report(owner, place, { outcome: 'refused', reason: `${fault}` })
    throw new ToolError('EGRESS_DENIED', `A request with ${fault} may not go out.`)
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

/** What is to be done about a target that no rule allows. */
function adviceFor(target: Target, { instead, publicOnly }: EgressScope, rules: readonly Rule[] = []): string {
  if (instead !== undefined) return 'It is not on the list of what may be reached here'
  const known = rules.filter((rule) => covers(rule, target))
  if (known.length === 0) return `Add "${target.origin}" to egress.allow`
  const held = publicOnly === true && known.every((rule) => rule.private)
  return held ? 'Its rule in egress.allow is for private addresses' : 'Its rule in egress.allow names other methods'
}

/** A URL as it is judged. */
interface JudgedUrl {
  readonly href: string
  readonly target: Target | undefined
  /** What no rule can allow, whatever the target. */
  readonly fault: string | undefined
}

function judgedUrl(url: URL): JudgedUrl {
  const { href } = url
  const target = targetOf(url)
  if (target === undefined) return { href, target, fault: `the scheme ${url.protocol.slice(0, -1)}` }
  const named = url.username !== '' || url.password !== ''
  return { href, target, fault: named ? 'a user or a password in its URL' : undefined }
}

/** Tells of one attempt. */
export type Report = (
  owner: string,
  target: Pick<Target, 'host' | 'port'> & { readonly scheme: string },
  end: Pick<EgressEvent, 'outcome' | 'address' | 'reason'>,
) => void

/** A report that a failing subscriber cannot disturb. */
export function createReport(onEvent: ((event: EgressEvent) => void) | undefined): Report {
  return (owner, { scheme, host, port }, end) => {
    try {
      onEvent?.({ owner, scheme, host, port, ...end })
    } catch {
      // Whoever listens must not decide whether a connection comes about.
    }
  }
}
