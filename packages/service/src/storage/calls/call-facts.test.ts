import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someCall } from '../../conformance/call-store/samples.ts'
import { plainOf } from './call-facts.ts'
import type { AdmittedCall, PlainCall } from './call-store.ts'

const known: PlainCall = { tool: 'math:add:1.0.0', principal: 'ada' }
const data = { id: '1', secret: 'for the codec alone' }
const reply = { codec: 'native', transport: 'redis', to: 'answers', data }

const cases: readonly (readonly [string, Partial<AdmittedCall>, PlainCall | undefined])[] = [
  ['is for nobody else', {}, known],
  ['is a chain', { kind: 'chain', tool: 'chain' }, { ...known, tool: 'chain' }],
  ['can be handed in again', { key: 'k' }, { ...known, keyed: true }],
  ['is answered over a broker', { reply }, { ...known, reply: { transport: 'redis', to: 'answers' } }],
  ['has a callback', { callback: 'https://example.com/' }, undefined],
  ['has a slot', { slot: { key: 's', limit: 1 }, reply }, undefined],
]

for (const [what, given, plain] of cases) {
  test(`what the end of a call that ${what} needs to know of it`, () => {
    assert.deepEqual(plainOf(someCall('c', given)), plain === undefined ? {} : { plain })
  })
}
