import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type JsonObject, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { decodeMessage, encodeArguments } from './codec.ts'
import { readDescriptors } from './descriptors.ts'
import { samplePath } from './server.fixture.ts'
import { loadFiles } from './source.ts'
import { inputSchemaOf, toolsOf } from './tools.ts'
import type { MessageType, Types } from './types.ts'
import { bytesField, varintField, WireError } from './wire.ts'

const concat = (...parts: readonly Buffer[]): Buffer => Buffer.concat(parts)

/** A file of proto2 with a service, as `protoc --include_source_info` would describe it. */
function oldFile(scope: string): Buffer {
  const required = concat(
    bytesField(1, 'user_id'),
    varintField(3, 1),
    varintField(4, 2),
    varintField(5, 3),
    bytesField(10, 'who'),
  )
  const optional = concat(bytesField(1, 'page_size'), varintField(3, 2), varintField(4, 1), varintField(5, 5))
  const message = concat(bytesField(1, 'Ask'), bytesField(2, required), bytesField(2, optional))
  const method = concat(bytesField(1, 'Get'), bytesField(2, `.${scope}.Ask`), bytesField(3, `.${scope}.Ask`))
  const service = concat(bytesField(1, 'Users'), bytesField(2, method))
  const location = (path: readonly number[], comment: string): Buffer =>
    bytesField(1, concat(bytesField(1, Buffer.from(path)), bytesField(3, comment)))
  const info = concat(location([6, 0, 2, 0], ' Finds a user.\n'), location([4, 0, 2, 0], ' Whom to find.\n'))
  return concat(
    bytesField(1, `${scope}.proto`),
    bytesField(2, scope),
    bytesField(4, message),
    bytesField(6, service),
    bytesField(9, info),
  )
}

function messageOf(types: Types, name: string): MessageType {
  const type = types.messages.get(name)
  assert.ok(type !== undefined, name)
  return type
}

test('a descriptor keeps JSON names, comments and required fields', () => {
  const types = readDescriptors([oldFile('old')])
  const ask = messageOf(types, 'old.Ask')
  const schema = inputSchemaOf(ask) as { readonly properties: JsonObject; readonly required: readonly string[] }
  assert.deepEqual(Object.keys(schema.properties), ['who', 'pageSize'])
  assert.deepEqual(schema.required, ['who'])
  assert.equal((schema.properties.who as JsonObject).description, 'Whom to find.')
  assert.equal(types.methods.get('old.Users/Get')?.comment, 'Finds a user.')
  // In proto2 an absent field is not the same as its zero.
  assert.deepEqual(decodeMessage(types, ask, encodeArguments(types, ask, { who: '7' })), { who: '7' })
})

test('methods of the same name in two packages get the package in their tool names', () => {
  const { tools } = toolsOf(readDescriptors([oldFile('one'), oldFile('two')]), { name: 'x', address: 'x:1' })
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['one.Users.Get', 'two.Users.Get'],
  )
})

test('a method whose messages are too large for a schema is left out, and the others are kept', () => {
  const field = (index: number): Buffer => {
    const numbers = concat(varintField(3, index + 1), varintField(4, 1), varintField(5, 5))
    return bytesField(2, concat(bytesField(1, `f${index}`), numbers))
  }
  const huge = bytesField(
    4,
    concat(bytesField(1, 'Huge'), ...Array.from({ length: 6_000 }, (_none, index) => field(index))),
  )
  const method = concat(bytesField(1, 'Push'), bytesField(2, '.big.Huge'), bytesField(3, '.big.Huge'))
  const service = bytesField(6, concat(bytesField(1, 'Big'), bytesField(2, method)))
  const types = readDescriptors([concat(bytesField(2, 'big'), huge, service), oldFile('old')])
  const { tools, left } = toolsOf(types, { name: 'x', address: 'x:1' })
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['Users.Get'],
  )
  assert.match(left.join(), /big\.Big\/Push is not a tool: Its messages have more than 5000 fields/)
})

test('a descriptor set is read from its file, and a missing or invalid file is an options error', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-grpc-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'old.binpb')
  await writeFile(path, bytesField(1, oldFile('old')))
  const { descriptors } = await loadFiles([path], [])
  assert.ok(readDescriptors(descriptors).methods.has('old.Users/Get'))
  await writeFile(join(folder, 'bad.proto'), 'syntax = "proto3"; message {')
  for (const wrong of ['missing.binpb', 'missing.proto', 'bad.proto']) {
    const failed = (error: unknown): boolean => ToolError.is(error) && error.code === 'CONFIG_INVALID'
    await assert.rejects(loadFiles([join(folder, wrong)], []), failed, wrong)
  }
})

test('arbitrary bytes make the decoders throw only WireError or ToolError', async () => {
  const { descriptors } = await loadFiles([samplePath], [])
  const types = readDescriptors(descriptors)
  const everything = messageOf(types, 'gantry.sample.v1.Everything')
  const expected = (error: unknown): boolean => error instanceof WireError || ToolError.is(error)
  const quiet = (read: () => unknown): boolean => {
    try {
      read()
      return true
    } catch (error) {
      return expected(error)
    }
  }
  const fieldTags = fc
    .integer({ min: 1, max: 60 })
    .chain((number) => fc.uint8Array({ maxLength: 24 }).map((bytes) => bytesField(number, bytes)))
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc.array(fieldTags, { maxLength: 6 }).map((all) => Buffer.concat(all)),
  )
  fc.assert(fc.property(bytes, (some) => quiet(() => decodeMessage(types, everything, Buffer.from(some)))))
  fc.assert(fc.property(bytes, (some) => quiet(() => readDescriptors([Buffer.from(some)]))))
})

test('arbitrary numbers and strings survive a round trip', async () => {
  const types = readDescriptors((await loadFiles([samplePath], [])).descriptors)
  const everything = messageOf(types, 'gantry.sample.v1.Everything')
  const value = fc.record({
    anInt32: fc.integer(),
    anInt64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
    aUint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    aSint32: fc.integer(),
    aSint64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
    aSfixed64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
    aDouble: fc.double({ noNaN: true, noDefaultInfinity: true }),
    aFloat: fc.float({ noNaN: true, noDefaultInfinity: true }).map((float) => Math.fround(float)),
    aString: fc.string({ unit: 'grapheme' }),
    struct: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
  })
  fc.assert(
    fc.property(value, (given) => {
      const back = decodeMessage(
        types,
        everything,
        encodeArguments(types, everything, given as JsonObject),
      ) as JsonObject
      assert.equal(Math.fround(Number(back.aFloat)), given.aFloat)
      for (const name of ['anInt32', 'anInt64', 'aUint64', 'aSint32', 'aSint64', 'aSfixed64', 'aDouble', 'aString']) {
        assert.deepEqual(back[name], given[name as keyof typeof given], name)
      }
      assert.deepEqual(JSON.stringify(back.struct), JSON.stringify(given.struct))
    }),
  )
})
