import type { Identity } from '@gantry/contract'
import { admitToPool, type PoolEntry } from '@gantry/core/internal/resilience/slots'
import type { McpHandlerRequestOptions, McpHttpHandler, Server } from '@modelcontextprotocol/server'
import type { McpSdk } from './sdk.ts'
import { defaultSessionLimits, onBodyEnd, poolFull, type SessionLimits, shareOf } from './sessions.ts'
import type { Surface } from './surface.ts'

/**
 * Notifies subscribers when the tools that they may see have changed, so that no subscriber learns of hidden tools. It
 * polls, because tools change with backends, configuration and policy.
 */
export interface ToolListChanges {
  /** Returns the function that unsubscribes. */
  subscribe(identity: Identity, changed: () => void): () => void
  close(): void
}

const everyMs = 1_000

export function createToolListChanges(
  { hashFor, state }: Pick<Surface, 'hashFor' | 'state'>,
  lookMs: number = everyMs,
): ToolListChanges {
  const subscribers = new Set<{ readonly identity: Identity; readonly changed: () => void; hash: string }>()
  let timer: NodeJS.Timeout | undefined
  let before: readonly unknown[] = []
  const look = (): void => {
    const now = state()
    if (now.length === before.length && now.every((one, at) => one === before[at])) return
    before = now
    for (const one of subscribers) {
      const hash = hashFor(one.identity)
      if (hash === one.hash) continue
      one.hash = hash
      one.changed()
    }
  }
  return {
    subscribe(identity, changed) {
      const one = { identity, changed, hash: hashFor(identity) }
      subscribers.add(one)
      timer ??= setInterval(look, lookMs).unref()
      return () => {
        subscribers.delete(one)
        if (subscribers.size > 0) return
        clearInterval(timer)
        timer = undefined
      }
    },
    close() {
      clearInterval(timer)
      subscribers.clear()
    },
  }
}

/** The streams of `subscriptions/listen`, on which clients of 2026-07-28 are notified that tools have changed. */
export interface Subscriptions {
  open(request: Request, identity: Identity, how: McpHandlerRequestOptions): Promise<Response>
  close(): Promise<void>
}

/** Each stream has its own handler, because a handler of the SDK sends the same notifications to all of its streams. */
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
