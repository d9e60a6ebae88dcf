import { ToolError, type Warning } from '@gantry/contract'
import type { Egress, EgressScope } from '@gantry/core/internal/egress/egress'

/** Requests of one program that egress refused, by their messages; each is reported once. */
export interface EgressRefusals {
  /** The same egress, observed. */
  readonly egress: Egress
  warnings(): readonly Warning[]
}

/** A program can ask for any number of hosts; the result names this many. */
const mostNamed = 10

/**
 * Observes the requests of a program, which learns of a refusal only as a failed connection. `onRefused` is called with
 * each message that is new.
 */
export function observeRefusals(egress: Egress, onRefused: (message: string) => void): EgressRefusals {
  const messages = new Set<string>()
  let more = 0
  const noted = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      if (ToolError.is(error) && error.code === 'EGRESS_DENIED') note(error.message)
      throw error
    }
  }
  const note = (message: string): void => {
    if (messages.has(message)) return
    if (messages.size >= mostNamed) more += 1
    else {
      messages.add(message)
      onRefused(message)
    }
  }
  return {
    egress: {
      request: (request) => noted(egress.request(request)),
      connect: (target) => noted(egress.connect(target)),
      check: (request) => egress.check(request),
      fetch: (scope) => egress.fetch(scope),
      setRules: (allow) => egress.setRules(allow),
      close: () => egress.close(),
    },
    warnings() {
      const named = [...messages].map((message): Warning => ({ code: 'EGRESS_DENIED', message }))
      if (more === 0) return named
      return [...named, { code: 'EGRESS_DENIED', message: `Egress refused ${more} more requests of the program.` }]
    },
  }
}

/** Methods that rules can name; a rule without methods allows a tunnel as well. */
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] as const

/**
 * Refuses a program that asks for an origin to which no rule of egress allows any request, before it starts; it would
 * otherwise see failed connections. Patterns are not checked, because some of their hosts may be allowed.
 */
export async function refuseForbidden(egress: Egress, allow: readonly string[], scope: EgressScope): Promise<void> {
  for (const [index, origin] of allow.entries()) {
    if (origin.includes('*')) continue
    const refusal = await refusalOf(egress, origin, scope)
    if (refusal === undefined) continue
    const issues = [{ path: `/network/allow/${index}`, message: refusal.message }]
    throw new ToolError('EGRESS_DENIED', refusal.message, { effect: 'none', cause: refusal, details: { issues } })
  }
}

/** The refusal of all methods; undefined when one is allowed. */
async function refusalOf(egress: Egress, origin: string, scope: EgressScope): Promise<ToolError | undefined> {
  let refusal: ToolError | undefined
  for (const method of methods) {
    try {
      await egress.check({ ...scope, url: origin, method })
      return undefined
    } catch (error) {
      if (!ToolError.is(error) || error.code !== 'EGRESS_DENIED') throw error
      refusal ??= error
    }
  }
  return refusal
}
