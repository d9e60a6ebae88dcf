import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatPath, parseReference, roots } from './reference.ts'

const segment = fc.oneof(fc.string({ unit: 'binary' }), fc.nat({ max: 9_999_999 }))

test('a reference that is formatted and parsed is unchanged', () => {
  fc.assert(
    fc.property(fc.constantFrom(...roots), fc.array(segment), (root, path) => {
      const text = `{{${formatPath(root, path)}}}`
      const parsed = parseReference(text)
      assert.deepEqual(parsed, { ok: true, reference: { root, path, text }, end: text.length })
    }),
  )
})

test('keys may be bare, in single or double quotes, or numbers', () => {
  const pathOf = (text: string) => {
    const parsed = parseReference(text)
    return parsed.ok ? parsed.reference.path : parsed.fault
  }
  assert.deepEqual(pathOf('{{ prev.a.b[0] }}'), ['a', 'b', 0])
  assert.deepEqual(pathOf('{{prev["odd key"][\'it\\\'s "so"\'].ключ}}'), ['odd key', 'it\'s "so"', 'ключ'])
  assert.deepEqual(pathOf('{{prev["}}"].x-y}}'), ['}}', 'x-y'])
})

test('the error for an invalid reference names the text before the fault', () => {
  const faultOf = (text: string) => {
    const parsed = parseReference(text)
    return parsed.ok ? 'none' : parsed.fault
  }
  assert.match(faultOf('{{}}'), /is not a reference/)
  assert.match(faultOf('{{process.env}}'), /starts with "process"/)
  assert.match(faultOf('{{prev.a'), /after "prev.a"/)
  assert.match(faultOf('{{prev.a b}}'), /after "prev.a"/)
  assert.match(faultOf('{{prev[-1]}}'), /after "prev"/)
  assert.match(faultOf('{{prev["\\q"]}}'), /after "prev"/)
})

test('the parser never throws', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('{{', '}}', 'prev', '.', '[', ']', '"', "'", '\\', '0', 'a', ' ')),
      (pieces) => {
        parseReference(pieces.join(''))
      },
    ),
  )
})
