import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails } from './egress.fixture.ts'
import { parseUrl, targetOf, targetOfHost } from './target.ts'

test('targetOf normalizes scheme, host and port', () => {
  assert.deepEqual(targetOf(new URL('HTTPS://Example.COM.:443/path')), {
    scheme: 'https',
    host: 'example.com',
    port: 443,
    origin: 'https://example.com',
  })
  assert.deepEqual(targetOf(new URL('http://[0:0::1]:8080')), {
    scheme: 'http',
    host: '::1',
    port: 8080,
    origin: 'http://[::1]:8080',
  })
  assert.equal(targetOf(new URL('ftp://example.com')), undefined)
})

test('a host and a port are parsed like a URL', () => {
  assert.equal(targetOfHost('https', 'Grpc.Example.com', 443).origin, 'https://grpc.example.com')
  assert.equal(targetOfHost('http', '::1', 50_051).origin, 'http://[::1]:50051')
  assert.equal(targetOfHost('http', '[::1]', 80).origin, 'http://[::1]')
  assert.equal(targetOfHost('http', '0x7f.1', 80).host, '127.0.0.1')
  for (const [host, port] of [
    ...['', 'a/b', 'a?b', 'a#b', 'u@a', 'a\\b', 'a b', 'a:1', '[::1'].map((name) => [name, 80] as const),
    ...[0, -1, 65_536, 1.5, Number.NaN].map((number) => ['a', number] as const),
  ]) {
    assert.throws(() => targetOfHost('http', host, port), fails('INPUT_INVALID'), `${host} ${port}`)
  }
})

test('the error for an invalid URL does not repeat the URL', () => {
  assert.throws(
    () => parseUrl('http://user:hunter2@ /'),
    fails('INPUT_INVALID', { message: 'The URL cannot be parsed.' }),
  )
})
