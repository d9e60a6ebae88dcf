import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallStore } from '../../storage/calls/call-store.ts'
import { stub } from '../../stub.fixture.ts'
import { extendHeld } from './leases.ts'

const store = (lost: readonly string[]) => stub<CallStore>({ extend: async () => ({ lost, cancelled: [] }) })

async function reported(before: ReadonlyMap<string, number>): Promise<readonly string[]> {
  const received: string[] = []
  const held = new Map([['a', 1]])
  const news = { lost: (callId: string) => void received.push(callId), cancelled: () => undefined }
  await extendHeld(store(['a']), 1_000, held, news, before)
  return received
}

test('a call that is missing in the store in one round may not be stored yet; in the second round it is lost', async () => {
  assert.deepEqual(await reported(new Map()), [])
  assert.deepEqual(await reported(new Map([['a', 1]])), ['a'])
})

test('a round with another fence does not count for the current one', async () => {
  assert.deepEqual(await reported(new Map([['a', 7]])), [])
})
