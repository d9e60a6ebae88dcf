import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { outputFile, outputText } from './files.ts'

test('a truncated stream ends at a whole character; a complete stream shows replacement characters', () => {
  const bytes = Buffer.from('aé€😀')
  for (let size = 0; size <= bytes.length; size += 1) {
    const text = outputText({ bytes: bytes.subarray(0, size), truncated: true })
    assert.ok('aé€😀'.startsWith(text) && !text.includes('\ufffd'), `${size}: ${text}`)
  }
  assert.equal(outputText({ bytes: bytes.subarray(0, 2), truncated: false }), 'a\ufffd')
})

test('NUL bytes and byte order marks are kept, and invalid UTF-8 is replaced', () => {
  assert.equal(outputText({ bytes: Buffer.from('\ufeffa\0b'), truncated: false }), '\ufeffa\0b')
  assert.equal(outputText({ bytes: Buffer.from([0x61, 0xff, 0x62]), truncated: true }), 'a\ufffdb')
})

test('a valid UTF-8 file becomes text and any other file base64, without loss', () => {
  assert.equal(outputFile(Buffer.from('é\0')), 'é\0')
  assert.equal(outputFile(new Uint8Array()), '')
  assert.deepEqual(outputFile(Buffer.from([0xc3])), { base64: 'ww==' })
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const file = outputFile(bytes.subarray(1))
      const back =
        typeof file === 'string' ? Buffer.from(file) : Buffer.from('base64' in file ? file.base64 : '', 'base64')
      assert.deepEqual([...back], [...bytes.subarray(1)])
    }),
  )
})
