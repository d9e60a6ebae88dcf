import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { tokenize } from './tokenize.ts'

function tokens(text: string, limit = 100): string[] {
  const into: string[] = []
  tokenize(text, into, limit)
  return into
}

for (const [text, expected] of [
  ['createIssue', 'create issue'],
  ['create_issue.comment-list', 'create issue comment list'],
  ['getHTTPResponse', 'get http response'],
  ['listURLs', 'list url'],
  ['Creates issues, classes & queries', 'create issue class query'],
  ['status address analysis', 'status address analysis'],
  ['oauth2 s3 sha256 v2Beta', 'oauth2 oauth s3 sha256 sha v2 beta'],
  ['Caf\u00e9 ﬁle ＡＢＣ', 'cafe file abc'],
  ['creaciónDeÍndices', 'creacion de indice'],
  ['検索する', '検索 索す する'],
  ['a\u0000b\u001b[31mc', 'a b 31mc'],
  ['', ''],
] as const) {
  test(`${JSON.stringify(text)} is tokenized as ${expected || 'nothing'}`, () => {
    assert.deepEqual(tokens(text), expected === '' ? [] : expected.split(' '))
  })
}

test('the tokenizer never exceeds the token limit and never emits an overlong or empty token', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.nat(20), (text, limit) => {
      const found = tokens(text, limit)
      assert.ok(found.length <= limit)
      for (const token of found) assert.ok(token.length > 0 && token.length <= 64)
    }),
  )
})

test('a megabyte without a space is one short token', () => {
  assert.deepEqual(tokens('x'.repeat(1_000_000)), ['x'.repeat(64)])
})
