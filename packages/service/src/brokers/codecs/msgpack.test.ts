import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JsonError } from '@gantry/core/internal/json/plain'
import { decode, encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { defaultMessageLimits } from './codec.ts'
import { decodeMsgpack, encodeMsgpack } from './msgpack.ts'

function faultOf(bytes: Uint8Array, limits = defaultMessageLimits): JsonError {
  try {
    decodeMsgpack(bytes, limits)
  } catch (error) {
    assert.ok(error instanceof JsonError, String(error))
    return error
  }
  return assert.fail('it was accepted')
}

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')

test('the decoder reads the output of another encoder unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, noUnicodeString: false }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value))
      const text = JSON.stringify(plain)
      if (text.includes('"__proto__"') || !wellFormed(plain)) return
      assert.deepEqual(decodeMsgpack(encode(plain)), plain)
    }),
  )
})

function wellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && wellFormed(member))
}

/** 64-bit integers as the decoder returns them: a number where that is exact, else the digits. */
function exact(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(exact)
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, exact(member)]))
}

test('the decoder reads or refuses any bytes, and reads what the library reads', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      let value: unknown
      try {
        value = decodeMsgpack(bytes)
      } catch (error) {
        assert.ok(error instanceof JsonError, String(error))
        return
      }
      assert.deepEqual(value, exact(decode(bytes, { useBigInt64: true })))
    }),
    { numRuns: 20_000 },
  )
})

test('the decoder reads or refuses an envelope with any byte changed', () => {
  const sound = encode({ correlation_id: 'c', tool_args: { list: [1, -5, 2.5, null, true, 'ü'], big: 2 ** 40 } })
  for (let at = 0; at < sound.length; at++) {
    for (const byte of [0x00, 0x80, 0x9f, 0xc1, 0xc7, 0xd9, 0xdd, 0xdf, 0xff]) {
      const spoilt = sound.slice()
      spoilt[at] = byte
      try {
        decodeMsgpack(spoilt)
      } catch (error) {
        assert.ok(error instanceof JsonError, String(error))
      }
    }
    assert.ok(faultOf(sound.subarray(0, at)) instanceof JsonError)
  }
})

test('every kind of number, text, list and map decodes from its golden bytes', () => {
  const golden: readonly (readonly [string, unknown])[] = [
    ['c0', null],
    ['c2', false],
    ['c3', true],
    ['7f', 127],
    ['e0', -32],
    ['cc ff', 255],
    ['cd 01 00', 256],
    ['ce 00 01 00 00', 65_536],
    ['cf 00 1f ff ff ff ff ff ff', Number.MAX_SAFE_INTEGER],
    ['d0 80', -128],
    ['d1 80 00', -32_768],
    ['d2 80 00 00 00', -2_147_483_648],
    ['d3 ff e0 00 00 00 00 00 01', Number.MIN_SAFE_INTEGER],
    ['ca 3f c0 00 00', 1.5],
    ['cb 3f f8 00 00 00 00 00 00', 1.5],
    ['a2 c3 bc', 'ü'],
    ['a3 ef bf bd', '\ufffd'],
    ['d9 01 61', 'a'],
    ['da 00 01 61', 'a'],
    ['db 00 00 00 01 61', 'a'],
    ['92 01 02', [1, 2]],
    ['dc 00 01 01', [1]],
    ['dd 00 00 00 01 01', [1]],
    ['81 a1 61 01', { a: 1 }],
    ['de 00 01 a1 61 01', { a: 1 }],
    ['df 00 00 00 01 a1 61 01', { a: 1 }],
  ]
  for (const [bytes, value] of golden) assert.deepEqual(decodeMsgpack(hex(bytes)), value, bytes)
})

test('the decoder allocates for a declared length only when the bytes follow', () => {
  // Each level declares 65,535 elements: a decoder that allocates for them needs gigabytes for a megabyte.
  const nested = Buffer.alloc(900_000, hex('dc ff ff'))
  const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  const bombs = ['dd ff ff ff ff', 'df ff ff ff ff', 'db ff ff ff ff', 'c6 ff ff ff ff', 'c9 ff ff ff ff 01']
  for (const bomb of bombs) for (let round = 0; round < 100; round++) faultOf(hex(bomb))
  assert.match(faultOf(hex('dd ff ff ff ff')).message, /declares 4294967295 members, but 0 bytes follow/)
  assert.match(faultOf(hex('82 a1 61 01')).message, /breaks off|declares/)
  assert.match(faultOf(nested).message, /members/)
  const after = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  assert.ok(after - before < 64 * 1_048_576, `${after - before} bytes more`)
})

test('the decoder follows nesting to its limit and no further', () => {
  const deep = (levels: number) => Buffer.concat([Buffer.alloc(levels, 0x91), hex('c0')])
  assert.doesNotThrow(() => decodeMsgpack(deep(64)))
  assert.equal(faultOf(deep(65)).fault, 'too-deep')
  assert.equal(faultOf(deep(100_000)).fault, 'too-deep')
})

test('the decoder limits members, texts and bytes', () => {
  assert.doesNotThrow(() => decodeMsgpack(encode(Array(10_000).fill(0))))
  assert.equal(faultOf(encode(Array(10_001).fill(0))).fault, 'too-large')
  const pieces = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`k${index}`, Array(100).fill(0)]))
  assert.equal(faultOf(encode(pieces)).fault, 'too-large')
  assert.doesNotThrow(() => decodeMsgpack(encode('a'.repeat(262_144))))
  assert.equal(faultOf(encode('a'.repeat(262_145))).fault, 'too-large')
  assert.equal(faultOf(Buffer.alloc(1_048_577)).fault, 'too-large')
  assert.equal(faultOf(hex('92 01 02'), { ...defaultMessageLimits, nodes: 1 }).fault, 'too-large')
})

test('the decoder refuses binary data, timestamps and other extension types, of which the library makes objects', () => {
  const refused = {
    'bin 8': 'c4 01 00',
    'fixext 1': 'd4 05 00',
    timestamp: 'd6 ff 00 00 00 01',
    'ext 8': 'c7 01 05 00',
    'timestamp in an ext 8': 'c7 0c ff 00 00 00 00 00 00 00 00 00 00 00 01',
  }
  for (const [name, bytes] of Object.entries(refused)) {
    assert.equal(typeof decode(hex(bytes)), 'object', name)
    assert.match(faultOf(hex(`81 a1 78 ${bytes}`)).message, /is not supported|is not allowed here/, name)
    assert.equal(faultOf(hex(`81 a1 78 ${bytes}`)).path, '/x', name)
  }
  assert.equal(faultOf(hex('c1')).fault, 'not-json')
})

test('the decoder refuses a key that is repeated, is not a text or is __proto__', () => {
  const twice = hex('82 a1 61 01 a1 61 02')
  assert.deepEqual(decode(twice), { a: 2 }, 'the library takes the last')
  assert.match(faultOf(twice).message, /is a repeated key/)
  assert.match(faultOf(hex('81 01 02')).message, /not a text/)
  assert.match(faultOf(hex('81 c4 01 61 02')).message, /not a text/)
  assert.match(faultOf(hex('81 91 01 02')).message, /not a text/)
  const proto = Buffer.concat([hex('81 a9'), Buffer.from('__proto__'), hex('81 a1 61 01')])
  assert.equal(faultOf(proto).fault, 'forbidden-key')
  const own = decodeMsgpack(encode({ constructor: { prototype: { bad: 1 } }, toString: 'x' }))
  assert.ok(Object.hasOwn(own as object, 'constructor'))
  assert.equal(({} as { bad?: number }).bad, undefined)
})

test('an integer that a number cannot hold exactly is decoded as text', () => {
  assert.deepEqual(decodeMsgpack(hex('81 a1 61 cf 00 20 00 00 00 00 00 00')), { a: '9007199254740992' })
  assert.deepEqual(decodeMsgpack(hex('81 a1 61 d3 80 00 00 00 00 00 00 00')), { a: '-9223372036854775808' })
})

test('the decoder refuses numbers that JSON cannot hold and texts that are not UTF-8, with their path', () => {
  assert.equal(faultOf(hex('81 a1 61 cb 7f f8 00 00 00 00 00 00')).path, '/a')
  assert.match(faultOf(hex('cb 7f f8 00 00 00 00 00 00')).message, /NaN/)
  assert.match(faultOf(hex('ca ff 80 00 00')).message, /-Infinity/)
  for (const bytes of ['a1 ff', 'a2 c3 28', 'a3 ed a0 80', 'a4 f5 80 80 80', 'a2 c0 80']) {
    assert.match(faultOf(hex(bytes)).message, /not UTF-8/, bytes)
  }
})

test('the decoder refuses bytes after the end and a message that breaks off', () => {
  assert.match(faultOf(hex('80 80')).message, /followed by 1 more bytes/)
  assert.match(faultOf(Buffer.alloc(0)).message, /breaks off/)
})

test('the members decoded before a fault are available to the reply', () => {
  const outermost = {}
  const bytes = Buffer.concat([
    hex('82'),
    encode('id'),
    encode('c1'),
    encode('args'),
    hex('cb 7f f8 00 00 00 00 00 00'),
  ])
  assert.throws(() => decodeMsgpack(bytes, defaultMessageLimits, outermost), JsonError)
  assert.deepEqual(outermost, { id: 'c1' })
})

test('the encoder writes a lone surrogate as U+FFFD, so that strict readers can decode the rest', () => {
  const bytes = encodeMsgpack({ 'k\ud800': ['a\ud800b', new Uint8Array([255])] })
  assert.deepEqual(decode(bytes), { 'k\ufffd': ['a\ufffdb', new Uint8Array([255])] })
  const strict = new TextDecoder('utf-8', { fatal: true })
  assert.throws(() => strict.decode(encode('a\ud800b').subarray(1)), 'the library writes what strict decoders reject')
})
