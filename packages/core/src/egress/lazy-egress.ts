import type { Egress, EgressAllow } from './egress.ts'
import { type EgressOptions, settingsOf } from './options.ts'
import { parseRules } from './rules.ts'

/** A guard that is built with its first connection: most executors never make one, and its HTTP client is large. */
export function lazyEgress(options: EgressOptions): Egress {
  // Wrong options stop the start, not the first call.
  settingsOf(options)
  let allow = options.allow
  let guard: Promise<Egress> | undefined
  let built: Egress | undefined
  const load = (): Promise<Egress> => {
    guard ??= import('./guard.ts').then(({ createEgress }) => {
      built = createEgress(allow === undefined ? options : { ...options, allow })
      return built
    })
    return guard
  }
  return {
    request: (request) => built?.request(request) ?? load().then((made) => made.request(request)),
    check: async (request) => (await load()).check(request),
    connect: async (target) => (await load()).connect(target),
    fetch: (scope) => async (input, init) => (await load()).fetch(scope)(input, init),
    setRules(rules: EgressAllow) {
      parseRules(rules, '/egress/allow')
      allow = rules
      // At once, because the next request may follow without a wait; a guard still to be built takes up what is set.
      built?.setRules(rules)
    },
    close: async () => (await guard)?.close(),
  }
}
