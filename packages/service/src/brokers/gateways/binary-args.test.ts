import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonSchema } from '@gantry/contract'
import { refuseBinary } from '../broker-calls.ts'

const bytes = { type: 'string', contentEncoding: 'base64' }
const schema: JsonSchema = {
  type: 'object',
  properties: {
    image: bytes,
    openapi: { type: 'string', format: 'byte' },
    text: { type: 'string' },
    list: { type: 'array', items: { anyOf: [{ type: 'string' }, bytes] } },
    pair: { type: 'array', prefixItems: [{ type: 'string' }, bytes], items: false },
    map: { type: 'object', additionalProperties: { $ref: '#/$defs/blob' } },
    'a/b': { allOf: [{ $ref: '#/$defs/blob' }] },
    loop: { $ref: '#/$defs/loop' },
  },
  $defs: { blob: bytes, loop: { anyOf: [{ $ref: '#/$defs/loop' }, { $ref: '#/$defs/loop' }] } },
}

test('binary data is accepted where the schema has base64, through lists, maps and references', () => {
  const places = ['/image', '/openapi', '/list/3', '/pair/1', '/map/any', '/a~1b']
  assert.doesNotThrow(() => refuseBinary(schema, places))
})

test('binary data is refused with its path where the schema has plain text, or nothing', () => {
  for (const place of ['/text', '/image/0', '/pair/0', '/pair/2', '/unknown', '/loop', '/__proto__', '/constructor']) {
    assert.throws(() => refuseBinary(schema, ['/image', place]), {
      code: 'INPUT_INVALID',
      details: {
        issues: [
          {
            path: place,
            message: 'is binary data; the schema takes it only with contentEncoding base64 or format byte',
          },
        ],
      },
    })
  }
  for (const any of [true, {}, { type: 'object' }]) {
    assert.throws(() => refuseBinary(any, ['/x']), { code: 'INPUT_INVALID' })
  }
})
