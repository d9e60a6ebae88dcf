import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compileTemplate, parseText } from './template.ts'

function partsOf(text: string) {
  const parsed = parseText(text)
  return parsed.ok ? parsed.parts.map((part) => (typeof part === 'string' ? part : [part.text])) : parsed.fault
}

test('a template splits text at its references', () => {
  assert.deepEqual(partsOf('#{{prev.n}} of {{ input.total }}!'), [
    '#',
    ['{{prev.n}}'],
    ' of ',
    ['{{ input.total }}'],
    '!',
  ])
  assert.deepEqual(partsOf('{"a":{{prev.n}}}'), ['{"a":', ['{{prev.n}}'], '}'])
  assert.deepEqual(partsOf('{{prev["{{x}}"]}}{{prev}}'), [['{{prev["{{x}}"]}}'], ['{{prev}}']])
})

test('a backslash escapes braces, and two backslashes are one', () => {
  assert.deepEqual(partsOf('\\{{prev}}'), ['{{prev}}'])
  assert.deepEqual(partsOf('C:\\\\{{prev}}'), ['C:\\', ['{{prev}}']])
  assert.deepEqual(partsOf('\\\\\\{{prev}} \\n'), ['\\{{prev}} \\n'])
})

test('braces that are not a reference are an issue', () => {
  assert.match(String(partsOf('Hello {{name}}')), /starts with "name".*write \\\{\{ for plain braces/)
  assert.match(String(partsOf('{{prev')), /cannot be read/)
})

test('any text with escaped braces is kept unchanged', () => {
  const unit = fc.constantFrom('{', '}', '{{', '\\', 'a', '{{prev}}')
  fc.assert(
    fc.property(fc.array(unit), (pieces) => {
      const text = pieces.join('')
      const escaped = text.replaceAll(/(\\*)\{\{/g, (_all, slashes: string) => `${slashes}${slashes}\\{{`)
      assert.deepEqual(partsOf(escaped), text === '' ? [] : [text])
    }),
  )
})

test('references in keys are not expanded', () => {
  const seen: string[] = []
  compileTemplate({ '{{prev}}': ['{{input}}'] }, '/0/args', {
    issue: (path, message) => assert.fail(`${path} ${message}`),
    reference: (path, reference) => seen.push(`${path} ${reference.text}`),
  })
  assert.deepEqual(seen, ['/0/args/{{prev}}/0 {{input}}'])
})
