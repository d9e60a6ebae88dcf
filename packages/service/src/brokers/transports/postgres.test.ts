import { randomUUID } from 'node:crypto'
import { someEnding } from '../../conformance/call-store/samples.ts'
import { type TransportFixture, testTransport } from '../../conformance/transport.ts'
import type { CallStore } from '../../storage/calls/call-store.ts'
import { memoryCallStore } from '../../storage/calls/memory.ts'
import { postgresTransport } from './postgres.ts'
import type { Delivery } from './transport.ts'

const leaseMs = 30_000

/** The transport adds waiting and waking to a store; the stores themselves run their own suite on real databases. */
testTransport('postgres transport', async () => {
  let time = 1_000
  return fixtureOf(memoryCallStore({ now: () => time }), async (store) => {
    time += leaseMs + 1
    await store.reclaim({ max: 100 })
  })
})

export function fixtureOf(store: CallStore, expire: (store: CallStore) => Promise<void>): TransportFixture {
  const transportOf = (worker: string) => postgresTransport({ store, claim: () => ({ worker, leaseMs }), pollMs: 20 })
  const names = new Map<string, string>()
  const idOf = ({ id }: Delivery): string => names.get(id) ?? ''
  return {
    transport: transportOf('one'),
    other: transportOf('two'),
    idOf,
    async send(ids) {
      const calls = ids.map((id) => {
        const callId = randomUUID()
        names.set(callId, id)
        return {
          callId,
          kind: 'call' as const,
          identity: { principal: 'ada', tenant: 'acme', permissions: [] },
          fingerprint: id,
          tool: 'test:it:1.0.0',
          digest: 'd',
          effect: 'read' as const,
          payload: '{}',
          payloadBytes: 2,
        }
      })
      await store.submit(calls)
    },
    expire: () => expire(store),
    async commit(deliveries) {
      const endings = deliveries.flatMap(({ body }) => {
        if (body.kind !== 'claimed') return []
        return [someEnding(body.claim, { text: '{}', bytes: 2 })]
      })
      await store.finish(endings)
    },
    close: async () => undefined,
  }
}
