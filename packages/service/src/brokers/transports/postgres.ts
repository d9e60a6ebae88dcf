import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { CallStore, ClaimOptions } from '../../storage/calls/call-store.ts'
import { stillHeld } from '../../storage/calls/lease-time.ts'
import type { Delivery, Transport } from './transport.ts'

export interface PostgresTransportOptions {
  readonly store: CallStore
  /** Called before each claim. */
  readonly claim: () => ClaimOptions
  /** The number of free slots when a claim is sent; as many as `receive` asked for when absent. */
  readonly freeSlots?: () => number
  /** The longest wait of a `receive` without `wake` before it claims again; a second when absent. */
  readonly pollMs?: number
}

/**
 * The table of calls as a queue: its deliveries are claimed already, and the outcome removes them. `wake` passes on the
 * notification of a claimable call; polling repairs lost notifications.
 */
export function postgresTransport({ store, claim, freeSlots, pollMs = 1_000 }: PostgresTransportOptions): Transport {
  let woken = false
  let wakeUp: (() => void) | undefined

  const sleep = async (signal: AbortSignal): Promise<void> => {
    if (woken || signal.aborted) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        stopListening()
        wakeUp = undefined
        resolve()
      }
      const timer = setTimeout(done, pollMs)
      const stopListening = onAbort(signal, done)
      wakeUp = done
    })
  }
  return {
    kind: 'postgres',
    async receive(max, signal) {
      while (!signal.aborted) {
        woken = false
        const askedAt = performance.now()
        const options = claim()
        const most = Math.min(max, freeSlots?.() ?? max)
        if (most <= 0) return []
        const claimed = await store.claim(most, options)
        const claims = await stillHeld(store, claimed, { askedAt, leaseMs: options.leaseMs })
        if (claims.length > 0) return claims.map(delivery)
        await sleep(signal)
      }
      return []
    },
    settle: async () => undefined,
    async release(deliveries, delayMs) {
      const holders = deliveries.flatMap(({ body }) =>
        body.kind === 'claimed' ? [{ callId: body.claim.callId, fence: body.claim.fence, delayMs }] : [],
      )
      await store.release(holders)
    },
    wake() {
      woken = true
      wakeUp?.()
    },
    close: async () => undefined,
  }
}

function delivery(claim: Extract<Delivery['body'], { kind: 'claimed' }>['claim']): Delivery {
  return { id: claim.callId, body: { kind: 'claimed', claim }, deliveries: claim.deliveries }
}
