import type { Identity } from '@gantry/contract'
import { canonicalJson } from '@gantry/core'
import type { McpHandlerRequestOptions, McpHttpHandler, Server } from '@modelcontextprotocol/server'
import type { Changes } from './changes.ts'
import type { McpSdk } from './sdk.ts'
import { defaultSessionLimits, refused, type SessionLimits, watched } from './sessions.ts'

/** The streams of `subscriptions/listen`, on which clients of 2026-07-28 hear that tools have changed. */
export interface Listeners {
  open(request: Request, identity: Identity, how: McpHandlerRequestOptions): Promise<Response>
  close(): Promise<void>
}

/** Each stream has a handler of its own, because that of the SDK tells all of its streams the same. */
export function createListeners(
  sdk: McpSdk,
  make: () => Server,
  changes: Changes,
  given: Partial<SessionLimits> = {},
): Listeners {
  const limits = { ...defaultSessionLimits, ...given }
  const open = new Map<McpHttpHandler, string>()
  return {
    async open(request, identity, how) {
      const owner = canonicalJson(identity as never)
      const own = [...open.values()].filter((one) => one === owner).length
      if (open.size >= limits.streams || own >= limits.streamsEach) {
        return refused(503, -32_000, 'Too many streams are open; close one, or try later.')
      }
      const handler = sdk.createMcpHandler(make, {
        legacy: 'reject',
        bus: {
          publish: () => undefined,
          subscribe: (hear) => changes.listen(identity, () => hear({ kind: 'tools_list_changed' })),
        },
      })
      open.set(handler, owner)
      return watched(await handler.fetch(request, how), () => open.delete(handler))
    },
    async close() {
      await Promise.all([...open.keys()].map((handler) => handler.close()))
    },
  }
}
