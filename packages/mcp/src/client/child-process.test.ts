import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { errorOutput, lineReader } from './child-process.ts'
import { limitedLines, plainText } from './logs.ts'
import { fillSecrets } from './settings.ts'

test('lineReader returns the same lines however the bytes are split into chunks', () => {
  const line = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\n') && text.isWellFormed())
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat({ max: 7 })), (lines, cuts) => {
      const found: string[] = []
      const reader = lineReader(1_000_000, (one) => found.push(one))
      const bytes = Buffer.from(lines.map((one) => `${one}\n`).join(''))
      let at = 0
      for (const cut of [...cuts, bytes.length]) {
        assert.ok(reader.push(bytes.subarray(at, at + cut)))
        at += cut
      }
      reader.push(bytes.subarray(at))
      assert.deepEqual(found, lines)
    }),
  )
})

test('lineReader accepts a line of exactly the limit and refuses a longer one before its newline arrives', () => {
  const found: string[] = []
  const reader = lineReader(4, (one) => found.push(one))
  assert.ok(reader.push(Buffer.from('1234\n12')))
  assert.deepEqual(found, ['1234'])
  assert.equal(reader.push(Buffer.from('345')), false)
})

test('lineReader refuses a line over the limit that arrives with its newline, in one chunk or in two', () => {
  const found: string[] = []
  const reader = () => lineReader(4, (one) => found.push(one))
  assert.equal(reader().push(Buffer.from('1234\n12345\n')), false)
  const pieces = reader()
  assert.deepEqual([pieces.push(Buffer.from('123')), pieces.push(Buffer.from('4\n'))], [true, true])
  assert.deepEqual([pieces.push(Buffer.from('123')), pieces.push(Buffer.from('45\n'))], [true, false])
  assert.deepEqual(found, ['1234', '1234'])
})

test('plainText spells out control characters and truncates long text', () => {
  assert.equal(plainText('a\u001b[31m\u202eb', 100), 'a U+001B [31m U+202E b')
  assert.equal(plainText('abcdef', 3), 'abc… (6 characters)')
})

test('limitedLines counts the lines over its limit per second and logs the count later', () => {
  let now = 0
  const logged: string[] = []
  const tell = limitedLines(
    (line) => logged.push(line),
    2,
    () => now,
  )
  for (const line of ['a', 'b', 'c', 'd']) tell(line)
  now = 1_000
  tell('e')
  assert.deepEqual(logged, ['a', 'b', '2 more lines were left out.', 'e'])
})

test('fillSecrets replaces references to secrets and nothing else', async () => {
  const secret = async (name: string) => `<${name}>`
  assert.equal(await fillSecrets('secret:a', secret), '<a>')
  assert.equal(await fillSecrets('Bearer secret:git.hub-1, secret:b', secret), 'Bearer <git.hub-1>, <b>')
  assert.equal(await fillSecrets('mysecret:a secret: x', secret), 'mysecret:a secret: x')
  assert.equal(await fillSecrets('secret:a', async () => '$& secret:b'), '$& secret:b')
})

test('errorOutput redacts a secret that arrives in two chunks', () => {
  const logged: string[] = []
  const errors = errorOutput(['correct-horse'], (line) => logged.push(line))
  errors.push(Buffer.from('token corr'))
  errors.push(Buffer.from('ect-horse end.\nrest'))
  assert.deepEqual(logged, ['token [redacted] end.'])
  assert.equal(errors.tail(), 'token [redacted] end. | rest')
})
