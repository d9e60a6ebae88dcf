import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import type { AdmittedCall } from '../../storage/calls/call-store.ts'
import { sqlCallStore } from '../../storage/calls/sql.ts'
import { threadLeases } from './start-lease-thread.ts'

const leaseMs = 1_500
/** Longer than any test: a shorter lease was renewed by the thread. */
const longMs = 600_000

function someCall(callId: string): AdmittedCall {
  const identity = { principal: 'ada', tenant: 'acme', permissions: [] }
  const what = { fingerprint: 'f', tool: 'test:it:1.0.0', effect: 'read', payload: '{}', payloadBytes: 2 } as const
  return { callId, kind: 'call', identity, ...what }
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

test('held calls keep their lease while the main thread is blocked, dropped calls do not', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const store = sqlCallStore(database)
  await store.submit(['kept', 'dropped'].map(someCall))
  const claims = await store.claim(2, { worker: 'w', leaseMs: longMs })
  const leases = threadLeases({ url, leaseMs, blockedMs: longMs }, { lost: () => {}, cancelled: () => {} })
  t.after(() => leases.close())
  leases.hold(claims)
  const unseen = `select from queue where lease_until > now() + interval '1 minute'`
  while ((await database.query(unseen)).length > 0) await pause(20)
  leases.drop(['dropped'])
  block(2 * leaseMs)
  assert.deepEqual((await store.reclaim({ max: 10 })).lost, ['dropped'])
})

test('the lease thread reports only calls whose lease was lost or that were cancelled', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const store = sqlCallStore(database)
  await store.submit(['lost', 'cancelled', 'well'].map(someCall))
  const claims = await store.claim(3, { worker: 'w', leaseMs: longMs })
  await store.release(claims.filter(({ callId }) => callId === 'lost'))
  await store.cancel('cancelled', 'acme')
  const received = new Set<string>()
  const leases = threadLeases(
    { url, leaseMs, blockedMs: longMs },
    {
      lost: (callId) => received.add(`${callId} is lost`),
      cancelled: (callId) => received.add(`${callId} is cancelled`),
    },
  )
  t.after(() => leases.close())
  leases.hold(claims)
  while (received.size < 2) await pause(20)
  assert.deepEqual([...received].sort(), ['cancelled is cancelled', 'lost is lost'])
})

test('without the lease thread every held call is lost', async (t) => {
  const { url } = await postgresDatabase(t)
  const nowhere = `${url}_nowhere`
  const lost = new Promise<string>((resolve) => {
    const leases = threadLeases({ url: nowhere, leaseMs, blockedMs: longMs }, { lost: resolve, cancelled: () => {} })
    leases.hold([{ callId: 'a', fence: 1 }])
  })
  assert.equal(await lost, 'a')
})
