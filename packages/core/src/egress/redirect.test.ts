import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails } from './egress.fixture.ts'
import { type Hop, isRedirect, nextHop } from './request.ts'

const hop = (more: Partial<Hop> = {}): Hop => ({
  url: new URL('https://a.test/x/y?z'),
  method: 'GET',
  headers: ['accept', 'text/plain', 'x-key', 'secret', 'content-type', 'text/html'],
  body: undefined,
  ...more,
})

test('only 301, 302, 303, 307 and 308 are redirects', () => {
  const found = Array.from({ length: 600 }, (_, status) => status).filter(isRedirect)
  assert.deepEqual(found, [301, 302, 303, 307, 308])
})

test('a Location header is resolved against the URL of its response', () => {
  assert.equal(nextHop(hop(), 302, '../up?q').url.href, 'https://a.test/up?q')
  assert.equal(nextHop(hop(), 302, '//b.test/p').url.href, 'https://b.test/p')
  assert.throws(() => nextHop(hop(), 302, 'http://a.test/'), fails('EGRESS_DENIED'))
})

test('headers stay within their origin, and content headers are dropped with the body', () => {
  const kept = ['accept', 'text/plain', 'x-key', 'secret']
  assert.deepEqual(nextHop(hop(), 302, '/').headers, [...kept, 'content-type', 'text/html'])
  assert.deepEqual(nextHop(hop(), 302, 'https://a.test:444/').headers, ['accept', 'text/plain'])
  const posted = nextHop(hop({ method: 'POST', body: 'b' }), 303, '/')
  assert.deepEqual([posted.method, posted.body, posted.headers], ['GET', undefined, kept])
})

test('a Location header with backslashes, control characters or an invalid URL is refused', () => {
  for (const location of ['/\\b.test', '/\tb', '/\nb', '\0', ' /b', 'https://', 'https://[::1']) {
    assert.throws(() => nextHop(hop(), 302, location), fails('EGRESS_DENIED'), JSON.stringify(location))
  }
})
