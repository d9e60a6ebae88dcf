import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json, JsonObject, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { createLines, type Lines } from './message-lines.ts'

interface Collected {
  readonly lines: Lines
  readonly values: Json[]
  readonly done: JsonObject[]
}

function collect(bytes?: number): Collected {
  const values: Json[] = []
  const done: JsonObject[] = []
  const limit = bytes === undefined ? {} : { bytes }
  const lines = createLines({ onValue: (value) => values.push(value), onDone: (line) => done.push(line), ...limit })
  return { lines, values, done }
}

test('each line of JSON becomes a value, for every split of the bytes', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue({ noUnicodeString: false }), { maxLength: 8 }), fc.nat(40), (values, cut) => {
      const collected = collect()
      const texts = values.map((value) => JSON.stringify(value))
      const bytes = Buffer.from(texts.map((line) => `${line}\n`).join(''))
      for (let at = 0; at < bytes.length; at += cut + 1) collected.lines.push(bytes.subarray(at, at + cut + 1))
      assert.equal(collected.values.length + collected.lines.dropped, values.length)
      if (collected.lines.dropped === 0 && collected.lines.droppedKeys === 0)
        assert.deepEqual(
          collected.values.map((value) => JSON.stringify(value)),
          texts,
        )
    }),
  )
})

test('a last line without a newline is a value', () => {
  const { lines, values } = collect()
  lines.push(Buffer.from('{"value":1}'))
  lines.end()
  assert.deepEqual(values, [{ value: 1 }])
})

test('lines that are not JSON or nested too deeply are dropped and counted', () => {
  const { lines, values } = collect()
  lines.push(Buffer.from(`no\n${'['.repeat(200)}${']'.repeat(200)}\n\xff\n1\n`, 'latin1'))
  assert.deepEqual(values, [1])
  assert.equal(lines.dropped, 3)
})

test('keys that would reach a prototype are left out of a value and counted', () => {
  const { lines, values } = collect()
  lines.push(Buffer.from('{"value":{"__proto__":{"polluted":1},"a":[{"__proto__":2}]}}\n{"value":1,"__proto__":\n'))
  assert.deepEqual(values, [{ value: { a: [{}] } }])
  assert.deepEqual([lines.droppedKeys, lines.dropped], [2, 1])
})

test('a line above the byte limit is dropped without being buffered', () => {
  const { lines, values } = collect(1_000)
  for (let count = 0; count < 30; count++) lines.push(Buffer.alloc(100, 0x31))
  lines.push(Buffer.from('\n2\n'))
  assert.equal(lines.dropped, 2)
  assert.deepEqual(values, [])
  const second = collect(1_000)
  second.lines.push(Buffer.from(`${'1'.repeat(1_001)}\n`))
  assert.equal(second.lines.dropped, 1)
})

test('values above the total byte limit are dropped, but the done line is still accepted', () => {
  const { lines, values, done } = collect(2_000)
  for (let count = 0; count < 120; count++) lines.push(Buffer.from(`${count}\n`))
  lines.push(Buffer.from('{"done":true,"code":3}\n'))
  assert.ok(values.length > 100 && values.length < 115, `${values.length} values`)
  assert.equal(values.length + lines.dropped, 120)
  assert.deepEqual(done, [{ done: true, code: 3 }])
})

test('a line dropped because the byte limit is used up costs its size plus 16 bytes', () => {
  const floods: ToolError[] = []
  const lines = createLines({ bytes: 1_000, onValue: () => {}, onFlood: (error) => floods.push(error) })
  const line = Buffer.from(`{"progress":1,"message":"${'x'.repeat(57)}"}\n`)
  assert.equal(line.length, 85)
  for (let count = 0; count < 40; count++) lines.push(line)
  assert.deepEqual([floods.length, lines.dropped], [0, 30])
  lines.push(line)
  assert.match(floods[0]?.message ?? '', /more than 4000 bytes .* 16 more and one that is no JSON with 256 more\.$/)
})

test('the last value has its own byte limit, independent of other lines', () => {
  for (const start of ['{"value":', '{"value": ', ' { "value" : ']) {
    const { lines, values } = collect(1_000)
    for (let count = 0; count < 38; count++) lines.push(Buffer.from(`{"progress":1,"message":"${'x'.repeat(57)}"}\n`))
    const { length } = values
    lines.push(Buffer.from(`${start}1}\n${start}"${'v'.repeat(900)}"}\n`))
    lines.end()
    lines.end()
    assert.deepEqual(values.slice(length), [{ value: 'v'.repeat(900) }], start)
  }
  const { lines, values } = collect(1_000)
  lines.push(Buffer.from(`${'1'.repeat(990)}\n{"value":no}`))
  lines.end()
  assert.deepEqual([values.length, lines.dropped], [0, 2])
})

test('values that replace one another count towards the flood limit', () => {
  const floods: ToolError[] = []
  const values: Json[] = []
  const onValue = (value: Json) => values.push(value)
  const lines = createLines({ bytes: 1_000, onValue, onFlood: (error) => floods.push(error) })
  for (let count = 0; count < 10; count++) lines.push(Buffer.from(`{"value":"${'v'.repeat(900)}"}\n`))
  lines.end()
  assert.deepEqual([floods.length, values.length], [1, 1])
})

test('a line that only looks like the done line is a value', () => {
  const { lines, values, done } = collect()
  lines.push(Buffer.from('{"done":false}\n{"done":1}\n["done"]\n'))
  assert.equal(done.length, 0)
  assert.equal(values.length, 3)
})

test('with a token, only a done line that contains it ends the run', () => {
  const values: Json[] = []
  const done: JsonObject[] = []
  const lines = createLines({
    onValue: (value) => values.push(value),
    onDone: (line) => done.push(line),
    token: 'mine',
  })
  lines.push(Buffer.from('{"done":true}\n{"done":true,"token":"yours"}\n{"done":true,"code":1,"token":"mine"}\n'))
  assert.deepEqual([values.length, done], [2, [{ done: true, code: 1, token: 'mine' }]])
})

test('every byte of every line is charged, also of empty, invalid and endless lines, and a flood ends the run once', () => {
  for (const filler of ['\n', ' \n', 'no\n', '{"done":true}\n', 'x', '{"__proto__":1\n']) {
    const floods: ToolError[] = []
    const values: Json[] = []
    const done: JsonObject[] = []
    const lines = createLines({
      bytes: 1_000,
      onValue: (value) => values.push(value),
      onDone: (line) => done.push(line),
      onFlood: (error) => floods.push(error),
    })
    for (let count = 0; count < 10; count++) lines.push(Buffer.from(filler.repeat(1_000)))
    lines.push(Buffer.from('\n{"done":true}\n1\n'))
    lines.end()
    assert.deepEqual([floods.map(({ code }) => code), values], [['LIMIT_EXCEEDED'], []], JSON.stringify(filler))
    assert.ok(done.length < 4_000 / 16, `${done.length}`)
  }
})

test('lines of the gateway are not charged as messages', () => {
  let taken = 0
  const fail = (): never => assert.fail('flooded')
  const lines = createLines({ bytes: 100, onValue: fail, onFlood: fail, own: { head: 'T ', take: () => taken++ } })
  for (let count = 0; count < 1_000; count++) lines.push(Buffer.from('T . 0\n'))
  assert.equal(taken, 1_000)
})
