import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { message } from './codec.fixture.ts'
import { pickCodec } from './codec.ts'
import { hasMember } from './members.ts'
import { nativeCodec } from './native.ts'
import { somastackCodec } from './somastack.ts'
import { stargazerCodec } from './stargazer.ts'

const codecs = [
  stargazerCodec({ mayReplyTo: () => true }),
  somastackCodec(),
  nativeCodec({ transport: 'kafka', mayReplyTo: () => true, deadLettersTo: 'dead' }),
]
const picked = (body: object | string) => pickCodec(codecs, message(body))?.kind

test('each message is decoded by the codec of its format', () => {
  assert.equal(picked(encode({ tool_name: 'echo' })), 'stargazer')
  assert.equal(
    picked(encode(Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`k${index}`, 0])))),
    'stargazer',
  )
  assert.equal(picked({ event_id: '1', session_id: 's', tool_name: 'echo', args: {}, metadata: {} }), 'somastack')
  assert.equal(picked(' \n{"metadata": {}, "args": {}, "session_id": "s"}'), 'somastack')
  assert.equal(picked({ tool: 'a:b', args: {} }), 'native')
  for (const unrecognised of ['', 'hello', '[1]', Buffer.from([0xc0]), Buffer.from([0xff, 0xff])]) {
    assert.equal(picked(unrecognised), undefined)
  }
})

test('a member name within the arguments does not select another codec', () => {
  assert.equal(picked({ tool: 'a:b', args: { tool_name: 'x', event_id: '1', session_id: '2' } }), 'native')
  assert.equal(picked({ tool: 'session_id', args: { list: ['event_id', { tool_name: 1 }] } }), 'native')
  assert.equal(picked('{"tool":"a:b \\"session_id\\": ","args":{}}'), 'native')
})

test('hasMember finds the outermost members of any object without parsing it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), fc.boolean(), (value, has) => {
      const object = { other: value, ...(has ? { event_id: value } : {}), last: value }
      assert.equal(hasMember(Buffer.from(JSON.stringify(object, null, has ? 1 : 0)), ['event_id']), has)
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      hasMember(Buffer.concat([Buffer.from('{'), bytes]), ['event_id'])
    }),
  )
})
