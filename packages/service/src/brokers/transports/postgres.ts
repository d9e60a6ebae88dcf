import type { CallStore, ClaimOptions } from '../../storage/calls/call-store.ts'
import { stillHeld } from '../../storage/calls/still-held.ts'
import type { Delivery, Transport } from './transport.ts'

export interface PostgresTransportOptions {
  readonly store: CallStore
  /** Asked before each look. */
  readonly claim: () => ClaimOptions
  /** How many calls whoever receives has room for by the time of a look; as many as it asked for when absent. */
  readonly room?: () => number
  /** How long a `receive` that nobody woke waits before it looks again; a second when absent. */
  readonly pollMs?: number
}

/**
 * The table of calls as a queue: what it hands over is claimed already, and the outcome removes it.
 * Whoever hears that a call can be claimed says `wake`; looking again after a while repairs what was not heard.
 */
export function postgresTransport({ store, claim, room, pollMs = 1_000 }: PostgresTransportOptions): Transport {
  let woken = false
  let wakeUp: (() => void) | undefined

  const sleep = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        wakeUp = undefined
        resolve()
      }
      const timer = setTimeout(done, pollMs)
      signal.addEventListener('abort', done, { once: true })
      wakeUp = done
      if (woken || signal.aborted) done()
    })
  return {
    kind: 'postgres',
    async receive(max, signal) {
      while (!signal.aborted) {
        woken = false
        const askedAt = performance.now()
        const options = claim()
        const most = Math.min(max, room?.() ?? max)
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
