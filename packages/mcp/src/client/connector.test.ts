import assert from 'node:assert/strict'
import { test } from 'node:test'
import { spacedGets } from './connector.ts'

test('spacedGets delays repeated GET requests for a stream and no POST request', async () => {
  const seen: string[] = []
  const fetch = async (_input: unknown, init?: RequestInit): Promise<Response> => {
    seen.push(init?.method ?? 'GET')
    return new Response()
  }
  const life = new AbortController()
  const spaced = spacedGets(fetch as typeof globalThis.fetch, life.signal)
  const address = 'http://127.0.0.1/'
  await Promise.all([spaced(address), spaced(address), spaced(address, { method: 'POST' })])
  const third = spaced(address)
  for (let post = 0; post < 20; post++) await spaced(address, { method: 'POST' })
  assert.equal(seen.filter((method) => method === 'GET').length, 2)
  assert.equal(seen.filter((method) => method === 'POST').length, 21)
  life.abort(new Error('closed'))
  await assert.rejects(third, /closed/)
})
