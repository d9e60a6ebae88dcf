import type { ServerResponse } from 'node:http'
import { type Identity, ToolError } from '@gantry/contract'
import type { HttpLimits } from './limits.ts'
import type { RequestScope } from './request-scope.ts'

/**
 * Counts the requests that take as long as they like: streams, those that wait for the end of a call, and downloads. Each
 * holds a connection, of which there are few, so that nobody may have so many that others find none.
 */
export interface Waiting {
  /**
   * Takes a place for a request until its answer is out or its client has gone. Throws RATE_LIMITED when its principal or
   * its tenant has as many as it may, or only those are left that are kept for requests that do not wait.
   */
  hold(identity: Identity, response: ServerResponse, scope: Pick<RequestScope, 'gone'>): void
}

/** The part of all connections that only requests which do not wait can have. */
const keptBack = 0.1
const retryAfterMs = 1_000

type WaitingLimits = Pick<HttpLimits, 'connections' | 'waitingPerTenant' | 'waitingPerPrincipal'>

/** The limits are read anew for each request, because they follow the configuration. */
export function createWaiting(limits: WaitingLimits): Waiting {
  const held = new Map<string, number>()
  const change = (key: string, by: 1 | -1): void => {
    const count = (held.get(key) ?? 0) + by
    if (count > 0) held.set(key, count)
    else held.delete(key)
  }
  return {
    hold({ tenant, principal }, response, { gone }) {
      // The response of a client who has gone is closed already, and would not tell of it again.
      gone.throwIfAborted()
      const { connections, waitingPerTenant, waitingPerPrincipal } = limits
      const places = [
        { key: JSON.stringify([tenant, principal]), most: waitingPerPrincipal, whose: 'of this principal' },
        { key: JSON.stringify([tenant]), most: waitingPerTenant, whose: 'of this tenant' },
        { key: '', most: Math.max(1, Math.floor(connections * (1 - keptBack))), whose: 'of all callers' },
      ]
      const full = places.find(({ key, most }) => (held.get(key) ?? 0) >= most)
      if (full !== undefined) throw crowded(full)
      for (const { key } of places) change(key, 1)
      response.once('close', () => {
        for (const { key } of places) change(key, -1)
      })
    },
  }
}

function crowded({ most, whose }: { readonly most: number; readonly whose: string }): ToolError {
  const message = `${most} streams and waiting requests ${whose} are open already; let some end, or ask without waiting.`
  return new ToolError('RATE_LIMITED', message, { stage: 'admit', details: { retryAfterMs, scope: 'caller' } })
}
