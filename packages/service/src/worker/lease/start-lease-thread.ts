import { Worker } from 'node:worker_threads'
import type { Holder } from '../../storage/calls/call-store.ts'
import type { FromLeaseThread, LeaseThreadData, ToLeaseThread } from './lease-thread.ts'
import { createLeaseTable, type LeaseListener, type Leases } from './leases.ts'

/**
 * Renews leases from a thread with its own connection, so that a tool that blocks the event loop of the service does
 * not lose the calls that run at the same time. A service that stays blocked for `blockedMs` loses them all the same.
 */
export function threadLeases(data: Omit<LeaseThreadData, 'memory'>, news: LeaseListener): Leases {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const table = createLeaseTable()
  const thread = new Worker(new URL(`./lease-thread.${extension}`, import.meta.url), {
    workerData: { ...data, memory: table.memory } satisfies LeaseThreadData,
  })
  const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()))
  let closed = false

  const post = (message: ToLeaseThread): void => thread.postMessage(message)
  const alive = setInterval(() => post('alive'), Math.max(10, data.leaseMs / 3))
  alive.unref()
  const lostAll = (): void => {
    clearInterval(alive)
    // Without the thread no lease is renewed: another worker may claim the calls, so they must stop.
    if (!closed) for (const callId of [...table.callIds()]) news.lost(callId)
  }
  /** A message about an earlier fence does not concern the current one. */
  const isHeld = ({ callId, fence }: Holder): boolean => table.fenceOf(callId) === fence
  thread.on('message', (message: FromLeaseThread) => {
    if ('lost' in message && isHeld(message.lost)) news.lost(message.lost.callId)
    else if ('cancelled' in message && isHeld(message.cancelled)) news.cancelled(message.cancelled.callId)
  })
  thread.on('error', () => undefined)
  thread.once('exit', lostAll)
  return {
    hold(holders) {
      for (const holder of holders) table.hold(holder)
    },
    drop(callIds) {
      for (const callId of callIds) table.drop(callId)
    },
    async close() {
      closed = true
      clearInterval(alive)
      post('end')
      await ended
    },
  }
}
