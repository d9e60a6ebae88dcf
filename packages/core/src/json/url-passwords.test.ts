import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRedactor, isSecretKey, redacted } from './redact.ts'

const { value: withoutUrlPasswords } = createRedactor({ mark: redacted })

test('the password of a URL is redacted for every scheme, and the rest of the URL is kept', () => {
  const shown: { readonly [text: string]: string } = {
    'postgres://u:pw@db.example/x?a=b': `postgres://u:${redacted}@db.example/x?a=b`,
    'redis://:pw@h:6379': `redis://:${redacted}@h:6379`,
    'amqp+ssl://u:p:w@h': `amqp+ssl://u:${redacted}@h`,
    'mongodb+srv://u:p@w@h/d': `mongodb+srv://u:${redacted}@h/d`,
    'HTTPS://u:p%40w@[::1]:8443/': `HTTPS://u:${redacted}@[::1]:8443/`,
    'from http://a:1@x to "ftp://b:2@y".': `from http://a:${redacted}@x to "ftp://b:${redacted}@y".`,
    'postgres://u:[redacted]@h': `postgres://u:${redacted}@h`,
    // Dialled as evil.example: in these schemes a backslash ends the host.
    'https://x:1@evil.example\\@good.example/': `https://x:${redacted}@evil.example\\@good.example/`,
    'wss://x:1@evil.example\\@good.example': `wss://x:${redacted}@evil.example\\@good.example`,
    'postgres://u:p\\w@h': `postgres://u:${redacted}@h`,
  }
  for (const [text, expected] of Object.entries(shown)) assert.equal(withoutUrlPasswords(text), expected)
})

test('a URL without a password is unchanged', () => {
  for (const text of [
    'ssh://git@host/path',
    'postgres://u:@h/d',
    'http://h:80/a:b@c',
    'http://h:80?q=a:b@c',
    'http://h:80#a:b@c',
    'http://h:80 mail to a@b.example',
    'https://[::1]:80/',
    'a:b@c',
    '://',
  ]) {
    assert.equal(withoutUrlPasswords(text), text)
  }
})

test('adversarial text is searched for URL passwords in linear time', () => {
  for (const piece of ['://', '://a:', ':', 'a.', '://:', '@', '://u:@']) {
    withoutUrlPasswords(piece.repeat(300_000))
    withoutUrlPasswords(`${'://u:'}${piece.repeat(300_000)}`)
  }
})

test('redaction by key also redacts URL passwords, at any depth and in keys', () => {
  const from = { url: 'postgres://u:pw@h', list: [{ 'redis://:pw@h': 'x' }] }
  const to = { url: `postgres://u:${redacted}@h`, list: [{ [`redis://:${redacted}@h`]: 'x' }] }
  assert.deepEqual(createRedactor({ mark: redacted }).value(from), to)
  assert.deepEqual(createRedactor({ keys: false }).value(from), from)
})

test('isSecretKey matches names of credentials other than passwords', () => {
  for (const key of [
    'jwt',
    'idJwt',
    'otp',
    'totp_code',
    'pin',
    'cardPin',
    'passcode',
    'ssn',
    'CVV',
    'cvc',
    'sessionid',
  ]) {
    assert.equal(isSecretKey(key), true, key)
  }
  for (const key of [
    'pinned',
    'spin',
    'opinion',
    'cvs',
    'session',
    'sessionId',
    'session_id',
    'accountSid',
    'option',
  ]) {
    assert.equal(isSecretKey(key), false, key)
  }
})
