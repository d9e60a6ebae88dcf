import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallStore } from '../../storage/calls/call-store.ts'
import { extendHeld } from './leases.ts'

const store = (lost: readonly string[]) => ({ extend: async () => ({ lost, cancelled: [] }) }) as unknown as CallStore

async function told(before: ReadonlyMap<string, number>): Promise<readonly string[]> {
  const heard: string[] = []
  const held = new Map([['a', 1]])
  const news = { lost: (callId: string) => void heard.push(callId), cancelled: () => undefined }
  await extendHeld(store(['a']), 1_000, held, news, before)
  return heard
}

test('a call that the store does not have in its first round may be on its way; in the second it is lost', async () => {
  assert.deepEqual(await told(new Map()), [])
  assert.deepEqual(await told(new Map([['a', 1]])), ['a'])
})

test('that it was held under another fence before says nothing of this one', async () => {
  assert.deepEqual(await told(new Map([['a', 7]])), [])
})
