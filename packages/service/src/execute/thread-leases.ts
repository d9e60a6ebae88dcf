import { Worker } from 'node:worker_threads'
import type { FromLeaseThread, LeaseThreadData, ToLeaseThread } from './lease-thread.ts'
import type { LeaseNews, Leases } from './leases.ts'

/**
 * Prolongs leases from a thread with a connection of its own, so that a tool that blocks the event loop of the service
 * does not lose the calls that run beside it. A service that stays blocked for `blockedMs` loses them all the same.
 */
export function threadLeases(data: LeaseThreadData, news: LeaseNews): Leases {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const thread = new Worker(new URL(`./lease-thread.${extension}`, import.meta.url), { workerData: data })
  const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  const held = new Set<string>()
  let drop: string[] = []
  let scheduled = false
  let closed = false

  const post = (message: ToLeaseThread): void => thread.postMessage(message)
  const flush = (): void => {
    scheduled = false
    post({ hold: [], drop })
    drop = []
  }
  const schedule = (): void => {
    if (scheduled) return
    scheduled = true
    setImmediate(flush)
  }
  const alive = setInterval(() => post({ alive: true }), Math.max(10, data.leaseMs / 3))
  alive.unref()
  const lostAll = (): void => {
    clearInterval(alive)
    // Without the thread no lease is prolonged: what runs here may be taken over, so it must stop.
    if (!closed) for (const callId of held) news.lost(callId)
  }
  thread.on('message', (message: FromLeaseThread) => {
    if ('lost' in message && held.has(message.lost)) news.lost(message.lost)
    else if ('cancelled' in message && held.has(message.cancelled)) news.cancelled(message.cancelled)
  })
  thread.on('error', () => undefined)
  thread.once('exit', lostAll)
  return {
    hold(holders) {
      for (const { callId } of holders) held.add(callId)
      // Told at once, and before what was to be let go of earlier: a tool that blocks this thread may begin right now.
      post({ hold: holders.map(({ callId, fence }) => ({ callId, fence })), drop })
      drop = []
    },
    drop(callIds) {
      for (const callId of callIds) held.delete(callId)
      drop.push(...callIds)
      schedule()
    },
    async close() {
      closed = true
      clearInterval(alive)
      post({ end: true })
      await ended
    },
  }
}
