import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { checkCallbackUrl } from './callback-target.ts'

test('checkCallbackUrl accepts a plain http or https URL', () => {
  for (const text of ['https://example.com/hook?x=1', 'http://127.0.0.1:8080/', 'https://[::1]/a']) {
    assert.equal(checkCallbackUrl(text).href, text)
  }
})

test('checkCallbackUrl refuses any other text with its path', () => {
  const wrong = [
    '',
    'example.com',
    '/hook',
    'ftp://example.com',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://',
    'https://user@example.com',
    'https://user:secret@example.com',
    'https://exa mple.com',
    'https://example.com\\@b',
    'https://example.com/\0',
    'https://example.com/\r\nx: y',
    ' https://example.com',
    'https://example.com/ü',
    `https://example.com/${'a'.repeat(2_100)}`,
    undefined,
    null,
    5,
    {},
  ]
  for (const text of wrong) {
    assert.throws(
      () => checkCallbackUrl(text),
      (error) => {
        assert.ok(ToolError.is(error), String(error))
        assert.equal(error.code, 'PAYLOAD_INVALID')
        assert.equal(error.details?.issues?.[0]?.path, '/callback')
        assert.equal(error.message.includes('secret'), false)
        return true
      },
    )
  }
})
