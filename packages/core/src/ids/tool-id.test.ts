import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { formatToolId, parseToolId, type ToolId } from './tool-id.ts'

const first = fc.constantFrom(...'abzAZ019_')
const rest = fc.array(fc.constantFrom(...'abzAZ019_-'), { maxLength: 20 }).map((characters) => characters.join(''))
const word = fc.tuple(first, rest).map(([head, tail]) => head + tail)
const dotted = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join('.'))
const version = fc.constantFrom('1.0.0', '1', '^1.2', '~0.3', '1.x', '>=1 <2', '*', '1.0.0-rc.1')

function fault(act: () => unknown): ToolError {
  try {
    act()
  } catch (error) {
    if (ToolError.is(error)) return error
    throw error
  }
  return assert.fail('nothing was thrown')
}

test('a formatted id parses back into its parts', () => {
  fc.assert(
    fc.property(dotted, dotted, fc.option(version, { nil: undefined }), (namespace, name, range) => {
      const id: ToolId = range === undefined ? { namespace, name } : { namespace, name, version: range }
      assert.deepEqual(parseToolId(formatToolId(id)), id)
    }),
  )
})

test('any text is either refused as an id or formats back unchanged', () => {
  const text = fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-b:.*^ 0-1-]{1,12}$/))
  fc.assert(
    fc.property(text, (id) => {
      let parsed: ToolId
      try {
        parsed = parseToolId(id)
      } catch (error) {
        assert.ok(ToolError.is(error) && error.code === 'TOOL_ID_INVALID')
        return
      }
      assert.equal(formatToolId(parsed), id)
    }),
  )
})

test('different parts never make the same id', () => {
  assert.deepEqual(parseToolId('a:b'), { namespace: 'a', name: 'b' })
  fault(() => formatToolId({ namespace: 'a', name: 'b:c' }))
  fault(() => formatToolId({ namespace: 'a:b', name: 'c' }))
  fault(() => parseToolId('a:b:c'))
  fc.assert(
    fc.property(dotted, dotted, dotted, dotted, (a, b, c, d) => {
      const same = a === c && b === d
      assert.equal(formatToolId({ namespace: a, name: b }) === formatToolId({ namespace: c, name: d }), same)
    }),
  )
})

test('an MCP tool name that begins with an underscore is valid', () => {
  assert.equal(parseToolId('files:_list').name, '_list')
})

for (const [id, reason] of [
  ['', 'no `:`'],
  ['math', 'no `:`'],
  [':add', 'the namespace is empty'],
  ['math:', 'the name is empty'],
  ['math:a\0b', 'U+0000'],
  ['math:a\nb', 'U+000A'],
  ['math:a b', 'U+0020'],
  ['math:../etc', 'U+002F'],
  ['math:a..b', '`..`'],
  ['math:..', '`..`'],
  ['math:.', 'does not start'],
  ['math:-a', 'does not start'],
  ['m\u0430th:add', 'U+0430'],
  ['math:add\u202e', 'U+202E'],
  ['math:add:', 'neither a version nor a range'],
  ['math:add:1:2', 'neither a version nor a range'],
  ['math:add:latest', 'neither a version nor a range'],
  [`${'a'.repeat(65)}:b`, 'longer than 64'],
  [`a:${'b'.repeat(129)}`, 'longer than 128'],
  [`a:${'b'.repeat(10_240)}`, 'longer than 400'],
] as const) {
  test(`the id ${JSON.stringify(id.slice(0, 20))} is refused with its reason`, () => {
    const error = fault(() => parseToolId(id))
    assert.equal(error.code, 'TOOL_ID_INVALID')
    assert.ok(error.message.includes(reason), error.message)
    assert.match(error.message, /^[\x20-\x7e…]{1,260}$/)
  })
}

test('a value that is not a string is refused as an id', () => {
  for (const value of [undefined, null, 7, {}, ['a:b']]) {
    assert.equal(fault(() => parseToolId(value as unknown as string)).code, 'TOOL_ID_INVALID')
  }
})
