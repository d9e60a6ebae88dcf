import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFramingHeader, isHeaderName, isSensitiveHeader } from '../egress/headers.ts'

test('a header name must be an HTTP token', () => {
  for (const name of ['X-Trace', 'a', '_', 'x'.repeat(256)]) assert.ok(isHeaderName(name), name)
  for (const name of ['', 'a b', ':path', 'a\r\nb', 'é', 'x'.repeat(257)]) assert.ok(!isHeaderName(name), name)
})

test('header names are matched in any case, and header families by their prefix', () => {
  assert.ok(isFramingHeader('Transfer-ENCODING') && !isFramingHeader('X-Trace'))
  for (const name of ['COOKIE', 'X-Forwarded-Prefix', 'Proxy-Anything', 'Idempotency-Key', 'x-rewrite-url'])
    assert.ok(isSensitiveHeader(name), name)
  for (const name of ['X-Trace', 'X-Forwarded', 'If-Match', 'My-Proxy-Name']) assert.ok(!isSensitiveHeader(name), name)
})
