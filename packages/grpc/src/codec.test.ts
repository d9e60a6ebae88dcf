import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type Json, type JsonObject, ToolError } from '@gantry/contract'
import { compileSchema } from '@gantry/json-schema'
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader'
import { decodeMessage, encodeArguments } from './codec.ts'
import { samplePath } from './server.fixture.ts'
import { readTypes } from './source.ts'
import { inputSchemaOf, outputSchemaOf } from './tools.ts'
import type { MessageType, Types } from './types.ts'
import { bytesField, varintField, WireError } from './wire.ts'

const messageName = 'gantry.sample.v1.Everything'
const options = { name: 'sample', address: 'localhost:1', proto: samplePath }
const theirs = loadSync(samplePath, {
  keepCase: false,
  longs: String,
  enums: String,
  bytes: String,
  oneofs: false,
  arrays: true,
})[messageName] as MessageTypeDefinition<object, object>
let types: Types
let everything: MessageType

before(async () => {
  const noChannel = { call: () => assert.fail('files need no connection'), close: async () => undefined }
  types = await readTypes(options, noChannel, async () => ({}), new AbortController().signal)
  everything = typeOf(messageName)
})

function typeOf(name: string): MessageType {
  const type = types.messages.get(name)
  assert.ok(type !== undefined, name)
  return type
}

const scalarsOnly: JsonObject = {
  aDouble: -1.5e300,
  aFloat: 0.1,
  anInt32: -2147483648,
  anInt64: '-9223372036854775808',
  aUint32: 4294967295,
  aUint64: '18446744073709551615',
  aSint32: -5,
  aSint64: '-9007199254740993',
  aFixed32: 4294967295,
  aFixed64: '18446744073709551615',
  aSfixed32: -7,
  aSfixed64: '-9223372036854775808',
  aBool: true,
  aString: 'grüße 🚀',
  someBytes: Buffer.from([0, 255, 128]).toString('base64'),
  colour: 'GREEN',
  numbers: [1, -1, 300],
  words: ['a', ''],
  colours: ['RED', 'COLOUR_UNSPECIFIED'],
  byName: { one: 1, none: 0 },
  byNumber: { '-5': { label: 'five', children: [] } },
  byFlag: { true: 'yes' },
  number: 0,
  maybe: '',
  root: { label: 'top', children: [{ label: 'leaf', children: [] }] },
  large: ['-1', '9223372036854775807'],
  doubles: [0, 1.25],
}

const wellKnownOnly: JsonObject = {
  at: '2026-01-31T12:00:00.500Z',
  took: '-1.000000001s',
  struct: { deep: { list: [1, 'two', null, true, {}] }, none: null },
  value: [{ a: null }],
  list: ['x', 2],
  any: { '@type': 'type.googleapis.com/gantry.sample.v1.AddRequest', a: 1, b: 2 },
  mask: 'userId,photo.fileName',
  nothing: {},
  wrappedInt64: '0',
  wrappedBool: false,
  wrappedBytes: '',
  wrappedDouble: 2.5,
  wrappedString: 'text',
}

function roundTrip(value: JsonObject): Json {
  return decodeMessage(types, everything, encodeArguments(types, everything, value))
}

function refusal(value: JsonObject): string {
  try {
    encodeArguments(types, everything, value)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID' && error.effect === 'none')
    return error.message
  }
  return assert.fail('it was accepted')
}

test('every type survives a round trip unchanged', () => {
  const given = { ...scalarsOnly, ...wellKnownOnly }
  assert.deepEqual(roundTrip(given), given)
})

test('another implementation decodes what the codec encodes', () => {
  const read = theirs.deserialize(encodeArguments(types, everything, scalarsOnly)) as JsonObject
  const { aFloat, byNumber, byFlag, ...same } = scalarsOnly
  const { aFloat: theirFloat, byNumber: _keyed, byFlag: _flagged, ...rest } = read
  assert.deepEqual({ ...rest }, { ...same })
  assert.equal(theirFloat, Math.fround(Number(aFloat)))
})

test('the codec decodes what another implementation encodes', () => {
  const { byNumber, byFlag, ...given } = scalarsOnly
  const read = decodeMessage(types, everything, theirs.serialize(given)) as JsonObject
  assert.deepEqual(read, { ...given, byNumber: {}, byFlag: {} })
})

test('an absent field decodes to its zero value, and an absent field with presence is omitted', () => {
  const read = roundTrip({}) as JsonObject
  assert.equal(read.anInt64, '0')
  assert.equal(read.colour, 'COLOUR_UNSPECIFIED')
  assert.deepEqual([read.words, read.byName, read.aBool, read.someBytes], [[], {}, false, ''])
  for (const name of ['maybe', 'text', 'number', 'tree', 'root', 'at', 'wrappedBool'])
    assert.equal(name in read, false, name)
})

test('numbers that JSON cannot represent are strings', () => {
  const given = { aDouble: 'NaN', aFloat: '-Infinity', doubles: ['Infinity'] }
  const { aDouble, aFloat, doubles } = roundTrip(given) as JsonObject
  assert.deepEqual({ aDouble, aFloat, doubles }, given)
})

test('null means absent, except for types with their own null', () => {
  const read = roundTrip({ aString: null, value: null, root: null }) as JsonObject
  assert.deepEqual([read.aString, read.value, 'root' in read], ['', null, false])
})

test('invalid arguments are refused with their paths', () => {
  assert.match(refusal({ anInt32: 2147483648 }), /\/anInt32 must be from/)
  assert.match(refusal({ anInt64: '9223372036854775808' }), /\/anInt64 must be from/)
  assert.match(refusal({ aUint64: '-1' }), /\/aUint64 must be from/)
  assert.match(refusal({ anInt32: 1.5 }), /must be an integer/)
  assert.match(refusal({ anInt32: true }), /must be an integer/)
  assert.match(refusal({ colour: 'BLUE' }), /\/colour must be a name of/)
  assert.match(refusal({ someBytes: '***' }), /must be base64/)
  assert.match(refusal({ numbers: [1, 'x'] }), /\/numbers\/1 must be an integer/)
  assert.match(refusal({ byFlag: { perhaps: 'x' } }), /\/byFlag\/perhaps/)
  assert.match(refusal({ root: { children: [{ nope: 1 }] } }), /\/root\/children\/0\/nope is not a field/)
  assert.match(refusal({ text: 'x', number: 1 }), /\/number cannot be given together with text/)
  assert.match(refusal({ at: 'yesterday' }), /\/at must be a moment/)
  assert.match(refusal({ took: '5 minutes' }), /\/took must be seconds/)
  assert.match(refusal({ any: { '@type': 'x/unknown.Type' } }), /No descriptor declares/)
})

test('a message of unknown type inside Any is kept as bytes', () => {
  const known = encodeArguments(types, everything, { any: { '@type': 'x/gantry.sample.v1.Tree', label: 'a' } })
  const other = Buffer.from(known.toString('latin1').replace('sample.v1.Tree', 'sample.v1.Tres'), 'latin1')
  const { any } = decodeMessage(types, everything, other) as JsonObject
  assert.deepEqual(any, { '@type': 'x/gantry.sample.v1.Tres', value: Buffer.from([10, 1, 97]).toString('base64') })
})

test('timestamps keep nanoseconds, and offsets are converted to UTC', () => {
  const { at } = roundTrip({ at: '2026-01-31T14:00:00.000000001+02:00' }) as JsonObject
  assert.equal(at, '2026-01-31T12:00:00.000000001Z')
  assert.equal((roundTrip({ at: '1969-12-31T23:59:59.5Z' }) as JsonObject).at, '1969-12-31T23:59:59.500Z')
  assert.equal((roundTrip({ took: '3s' }) as JsonObject).took, '3s')
})

test('a key __proto__ in a map or a Struct changes no prototype', () => {
  const given = JSON.parse('{"struct":{"__proto__":{"polluted":true}},"byName":{"__proto__":1}}')
  const read = roundTrip(given) as { struct: object; byName: object }
  assert.deepEqual(Object.keys(read.struct), ['__proto__'])
  assert.equal((read.struct as { polluted?: unknown }).polluted, undefined)
  assert.equal(Object.getPrototypeOf(read.byName), Object.prototype)
})

test('the input schema accepts encodable values and refuses others', () => {
  const validator = compileSchema(inputSchemaOf(everything))
  const accepts = (value: Json): boolean => validator.check(value)
  assert.ok(accepts({ ...scalarsOnly, ...wellKnownOnly }))
  assert.ok(accepts({}))
  for (const wrong of [
    { anInt64: 5 },
    { anInt32: 2 ** 31 },
    { aUint32: -1 },
    { colour: 'BLUE' },
    { unknown: 1 },
    { root: { children: [{ children: [{ label: 5 }] }] } },
    { text: 'x', number: 1 },
    { byFlag: { maybe: 'x' } },
    { byNumber: { x: {} } },
    { took: '5m' },
    { any: {} },
  ]) {
    assert.equal(accepts(wrong as Json), false, JSON.stringify(wrong))
  }
})

test('the output schema accepts decoded values, and requires fields that are always present', () => {
  const validator = compileSchema(outputSchemaOf(everything, false))
  assert.ok(validator.check(roundTrip({ ...scalarsOnly, ...wellKnownOnly })))
  assert.ok(validator.check(roundTrip({})))
  assert.equal(validator.check({}), false)
  const list = compileSchema(outputSchemaOf(typeOf('gantry.sample.v1.Tree'), true))
  assert.ok(list.check([{ label: 'a', children: [{ label: 'b', children: [] }] }]))
  assert.equal(list.check([{ label: 'a', children: [{ label: 5, children: [] }] }]), false)
})

test('a request that is a wrapper type becomes the argument `value`', () => {
  const type = typeOf('google.protobuf.StringValue')
  assert.deepEqual(Object.keys((inputSchemaOf(type) as { properties: object }).properties), ['value'])
  assert.equal(decodeMessage(types, type, encodeArguments(types, type, { value: 'x' })), 'x')
})

test('a string that is not UTF-8 is an error with the path of its field', () => {
  const bad = Buffer.from([0xff, 0x61])
  const wire = (...fields: readonly Buffer[]): Buffer => Buffer.concat(fields)
  const field = (name: string): number => {
    const found = everything.fields.find((each) => each.name === name)
    assert.ok(found !== undefined, name)
    return found.number
  }
  const pathOf = (bytes: Buffer): string => {
    try {
      decodeMessage(types, everything, bytes)
    } catch (error) {
      assert.ok(error instanceof WireError)
      assert.match(error.message, /not valid UTF-8/)
      return error.path
    }
    return 'decoded'
  }
  const value = bytesField(3, bad)
  const cases: readonly (readonly [string, Buffer])[] = [
    ['/aString', bytesField(field('aString'), bad)],
    ['/words/1', wire(bytesField(field('words'), 'a'), bytesField(field('words'), bad))],
    ['/byFlag/true', bytesField(field('byFlag'), wire(varintField(1, 1), bytesField(2, bad)))],
    ['/byName', bytesField(field('byName'), wire(bytesField(1, bad), varintField(2, 1)))],
    ['/root/children/0/label', bytesField(field('root'), bytesField(2, bytesField(1, bad)))],
    ['/struct/a~1b', bytesField(field('struct'), bytesField(1, wire(bytesField(1, 'a/b'), bytesField(2, value))))],
    ['/struct', bytesField(field('struct'), bytesField(1, wire(bytesField(1, bad), bytesField(2, value))))],
  ]
  for (const [path, bytes] of cases) assert.equal(pathOf(bytes), path)
})

test('text with a lone surrogate is refused before it is sent', () => {
  const refused = (args: JsonObject, path: string): void => {
    assert.throws(
      () => encodeArguments(types, everything, args),
      (error) => ToolError.is(error) && error.code === 'INPUT_INVALID' && error.details?.issues?.[0]?.path === path,
    )
  }
  refused({ aString: 'a\ud800' }, '/aString')
  refused({ words: ['fine', '\udc00'] }, '/words/1')
  refused({ struct: { a: '\ud800' } }, '/struct')
})

test('an enum value without a name decodes to its number', () => {
  const { colour } = decodeMessage(types, everything, Buffer.from([0x80, 0x01, 9])) as JsonObject
  assert.equal(colour, 9)
})

test('the last member of a oneof takes precedence, and parts of a message are merged', () => {
  const [text, number] = [{ text: 'x' }, { number: 4 }].map((value) => encodeArguments(types, everything, value))
  const read = decodeMessage(types, everything, Buffer.concat([number ?? Buffer.alloc(0), text ?? Buffer.alloc(0)]))
  assert.deepEqual([(read as JsonObject).text, 'number' in (read as JsonObject)], ['x', false])
  const pieces = [{ root: { label: 'a' } }, { root: { children: [{ label: 'b' }] } }]
  const both = Buffer.concat(pieces.map((value) => encodeArguments(types, everything, value)))
  const { root } = decodeMessage(types, everything, both) as JsonObject
  assert.deepEqual(root, { label: 'a', children: [{ label: 'b', children: [] }] })
})
