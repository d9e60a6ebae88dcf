import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTraceparent, traceIdOf } from './tracer.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const ids = `${traceId}-b7ad6b7169203331`

test('readTraceparent accepts the W3C format', () => {
  assert.equal(readTraceparent(`00-${ids}-01`), `00-${ids}-01`)
  assert.equal(readTraceparent(`00-${ids}-00`), `00-${ids}-00`)
  assert.equal(traceIdOf(`00-${ids}-01`), traceId)
})

test('readTraceparent keeps only the sampled flag', () => {
  assert.equal(readTraceparent(`00-${ids}-ff`), `00-${ids}-01`)
  assert.equal(readTraceparent(`00-${ids}-fe`), `00-${ids}-00`)
})

test('readTraceparent reads the known fields of a later version and returns version 00', () => {
  assert.equal(readTraceparent(`cc-${ids}-01`), `00-${ids}-01`)
  assert.equal(readTraceparent(`cc-${ids}-01-what-comes-then`), `00-${ids}-01`)
})

test('readTraceparent ignores values that are not a traceparent', () => {
  const hostile: readonly unknown[] = [
    ...[
      '',
      'nonsense',
      `00-${ids}`,
      `00-${ids}-1`,
      `0-${ids}-01`,
      ` 00-${ids}-01`,
      `00-${ids}-01 `,
      `00-${ids}-01-more`,
    ],
    ...[`ff-${ids}-01`, `00-${ids.toUpperCase()}-01`, `00-${'0'.repeat(32)}-b7ad6b7169203331-01`],
    ...[
      `00-${traceId}-${'0'.repeat(16)}-01`,
      `00-${ids}-0g`,
      `00-${ids}-01\n`,
      `00-${ids}-01\r\nx-evil: 1`,
      `cc-${ids}-01.x`,
    ],
    ...[`cc-${ids}-01-${'x'.repeat(1_000)}`, '-'.repeat(1_000_000), null, undefined, 7, {}, [`00-${ids}-01`]],
  ]
  for (const value of hostile) assert.equal(readTraceparent(value), undefined, String(value).slice(0, 80))
})
