import type { Identity } from '@gantry/contract'
import { admitToPool, type PoolEntry } from '@gantry/core/internal/resilience/pool-share'
import type { McpHandlerRequestOptions, McpHttpHandler, Server } from '@modelcontextprotocol/server'
import type { McpSdk } from './sdk.ts'
import { defaultSessionLimits, onBodyEnd, poolFull, type SessionLimits, shareOf } from './sessions.ts'
import type { ToolListChanges } from './tool-list-changes.ts'

/** The streams of `subscriptions/listen`, on which clients of 2026-07-28 are notified that tools have changed. */
export interface Subscriptions {
  open(request: Request, identity: Identity, how: McpHandlerRequestOptions): Promise<Response>
  close(): Promise<void>
}

/** Each stream has a handler of its own, because a handler of the SDK sends all of its streams the same. */
export function createSubscriptions(
  sdk: McpSdk,
  make: () => Server,
  changes: ToolListChanges,
  given: Partial<SessionLimits> = {},
): Subscriptions {
  const limits = { ...defaultSessionLimits, ...given }
  const { streams, streamsEach, streamsPerTenant = shareOf(streams, streamsEach) } = limits
  const share = { total: streams, perTenant: streamsPerTenant, perPrincipal: streamsEach }
  const open = new Map<McpHttpHandler, PoolEntry>()
  return {
    async open(request, identity, how) {
      const { tenant, principal } = identity
      const admission = admitToPool(open.values(), identity, share)
      if (admission.kind === 'full') return poolFull(admission, 'streams')
      const handler = sdk.createMcpHandler(make, {
        legacy: 'reject',
        bus: {
          publish: () => undefined,
          subscribe: (notify) => changes.subscribe(identity, () => notify({ kind: 'tools_list_changed' })),
        },
      })
      open.set(handler, { tenant, principal, idle: false, usedAt: 0 })
      return onBodyEnd(await handler.fetch(request, how), () => open.delete(handler))
    },
    async close() {
      await Promise.all([...open.keys()].map((handler) => handler.close()))
    },
  }
}
