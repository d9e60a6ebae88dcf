import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { judge, parseRules } from './rules.ts'
import { targetOf } from './target.ts'

function verdict(allow: unknown, url: string, method = 'GET'): 'no' | 'public' | 'private' {
  const target = targetOf(new URL(url))
  assert.ok(target)
  const found = judge(parseRules(allow, '/egress/allow'), target, method === 'raw' ? undefined : method)
  return found.allowed ? (found.private ? 'private' : 'public') : 'no'
}

test('a rule matches by scheme, host and port', () => {
  const rule = ['https://API.example.com']
  for (const url of ['https://api.example.com', 'https://api.example.com:443/path?a=b', 'https://api.example.com./']) {
    assert.equal(verdict(rule, url), 'public', url)
  }
  for (const url of [
    'http://api.example.com',
    'https://api.example.com:8443',
    'https://example.com',
    'https://x.api.example.com',
    'https://api.example.com.evil.test',
    'https://evilapi.example.com',
    'https://api-example.com',
  ]) {
    assert.equal(verdict(rule, url), 'no', url)
  }
  assert.equal(verdict(['http://[::1]:8080'], 'http://[0:0:0:0:0:0:0:1]:8080/'), 'public')
  assert.equal(verdict(['http://127.0.0.1'], 'http://0x7f.1/'), 'public')
  assert.equal(verdict(['https://bücher.example'], 'https://xn--bcher-kva.example/'), 'public')
})

test('`*.` matches one or more labels', () => {
  const rule = ['https://*.example.com']
  assert.equal(verdict(rule, 'https://a.example.com'), 'public')
  assert.equal(verdict(rule, 'https://a.b.example.com'), 'public')
  for (const url of ['https://example.com', 'https://evilexample.com', 'https://a.example.com.evil.test']) {
    assert.equal(verdict(rule, url), 'no', url)
  }
})

test('methods and private apply only to their own rule', () => {
  const rules = [
    { origin: 'http://db.test', methods: ['GET', 'HEAD'], private: true },
    { origin: 'http://db.test', methods: ['POST'] },
  ]
  assert.equal(verdict(rules, 'http://db.test', 'GET'), 'private')
  assert.equal(verdict(rules, 'http://db.test', 'POST'), 'public')
  assert.equal(verdict(rules, 'http://db.test', 'DELETE'), 'no')
  assert.equal(verdict(rules, 'http://db.test', 'raw'), 'no')
  assert.equal(verdict(['http://db.test'], 'http://db.test', 'raw'), 'public')
})

test('a rule that is not an origin is refused with its path and an example', () => {
  const wrong: [unknown, string, RegExp][] = [
    ['https://example.com/', '/0/origin', /such as "https:\/\/example\.com"/],
    ['https://example.com/path', '/0/origin', /without user, path or query, such as "https:\/\/example\.com"/],
    ['https://user@example.com', '/0/origin', /such as "https:\/\/example\.com"/],
    ['https://user:word@example.com', '/0/origin', /such as "https:\/\/example\.com"/],
    ['https://example.com?a=b', '/0/origin', /only scheme, host and port/],
    ['https://example.com#a', '/0/origin', /only scheme/],
    ['https://example.com\\', '/0/origin', /only scheme/],
    ['example.com', '/0/origin', /only scheme/],
    ['ftp://example.com', '/0/origin', /only scheme/],
    ['https://', '/0/origin', /only scheme/],
    ['https://a b', '/0/origin', /only scheme/],
    ['https://example.com:99999', '/0/origin', /only scheme/],
    ['https://example.com:0', '/0/origin', /only scheme/],
    ['*', '/0/origin', /only scheme/],
    ['https://*', '/0/origin', /one "\*\." only/],
    ['https://*.com', '/0/origin', /a name with a dot/],
    ['https://*.1.2.3.4', '/0/origin', /a name with a dot/],
    ['https://*.*.example.com', '/0/origin', /one "\*\." only/],
    ['https://a.*.example.com', '/0/origin', /one "\*\." only/],
    [7, '/0', /must be an origin/],
    [{}, '/0/origin', /is required and must be a string such as/],
    [{ origin: 'https://example.com', method: ['GET'] }, '/0/method', /did you mean "methods"/],
    [{ origin: 'https://example.com', methods: ['get'] }, '/0/methods', /in capitals/],
    [{ origin: 'https://example.com', methods: [] }, '/0/methods', /in capitals/],
    [{ origin: 'https://example.com', private: 'yes' }, '/0/private', /true or false/],
  ]
  for (const [rule, path, words] of wrong) {
    assert.throws(
      () => parseRules([rule], '/egress/allow'),
      (error) => {
        assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID')
        const [issue] = error.details?.issues ?? []
        assert.equal(issue?.path, `/egress/allow${path}`, JSON.stringify(rule))
        assert.match(issue?.message ?? '', words)
        return true
      },
    )
  }
  assert.throws(() => parseRules('https://example.com', '/egress/allow'), /must be a list/)
})

test('an error about a rule does not repeat a password', () => {
  assert.throws(
    () => parseRules(['https://user:hunter2@example.com'], '/egress/allow'),
    (error) => !String(error).includes('hunter2'),
  )
})
