import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someCall } from '../../conformance/call-store/samples.ts'
import { createCallIds, plainOf, timeOfCallId } from './call-facts.ts'
import type { AdmittedCall, PlainCall } from './call-store.ts'

const known: PlainCall = { tool: 'math:add:1.0.0', principal: 'ada' }
const data = { id: '1', secret: 'for the codec alone' }
const reply = { codec: 'native', transport: 'redis', to: 'answers', data }

const cases: readonly (readonly [string, Partial<AdmittedCall>, PlainCall | undefined])[] = [
  ['has no reply, callback or key', {}, known],
  ['is a chain', { kind: 'chain', tool: 'chain' }, { ...known, tool: 'chain' }],
  ['can be submitted again', { key: 'k' }, { ...known, keyed: true }],
  ['is answered over a broker', { reply }, { ...known, reply: { transport: 'redis', to: 'answers' } }],
  ['has a callback', { callback: 'https://example.com/' }, undefined],
  ['has a slot', { slot: { key: 's', limit: 1 }, reply }, undefined],
]

for (const [what, given, plain] of cases) {
  test(`plainOf a call that ${what}`, () => {
    assert.deepEqual(plainOf(someCall('c', given)), plain === undefined ? {} : { plain })
  })
}

test('call ids are unique version 7 UUIDs that sort by time', () => {
  let now = 1_700_000_000_000
  const next = createCallIds(() => now)
  const ids = Array.from({ length: 2_000 }, () => {
    now += 1
    return next()
  })
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.deepEqual(ids.toSorted(), ids)
  assert.equal(new Set(ids).size, ids.length)
})

test('timeOfCallId reads the time from a call id, and is undefined for any other id', () => {
  const now = 1_700_000_000_123
  assert.equal(timeOfCallId(createCallIds(() => now)()), now)
  for (const other of ['', 'c-1', '018bcfe5-687b-4abc-8abc-0123456789ab']) assert.equal(timeOfCallId(other), undefined)
})
