import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { parseRules } from '@gantry/core/internal/egress/rules'
import { isListed, outsideOf, overlap, parseAllow } from './origins.ts'

const right = [
  'https://api.example.com',
  'http://localhost:8080',
  'https://*.example.com',
  'HTTPS://API.example.com:443',
  ...[
    'http://127.0.0.1:80',
    'http://[::1]:8080',
    'https://bücher.example',
    'http://a_b.example',
    'http://example.com.',
  ],
  'https://*.a.b.example:8443',
  'http://2130706433',
]
const wrong: readonly unknown[] = [
  '',
  'example.com',
  'https://',
  'https://example.com/',
  'https://user@example.com',
  'ftp://example.com',
  '*',
  ...[
    'https://*.com',
    'https://*.com.',
    'https://*',
    'https://a.*.example',
    'https://*.*.example',
    'https://*.127.0.0.1',
  ],
  ...[
    'https://*.[::1]',
    'https://example.com:0',
    'https://example.com:65536',
    'https://a b',
    'https://a\\b',
    'https://a?b',
  ],
  ...['https://a#b', 'https://[fe80::1%25lo]', 'https://a\0b', ' https://example.com', 'https://example.com\n'],
  ...[42, null, undefined, {}, ['https://example.com']],
]

test('origin lists accept and refuse the same entries as the egress rules', () => {
  for (const entry of right) {
    const [mine] = parseAllow([entry])
    const [rule] = parseRules([entry], '')
    assert.deepEqual(mine, {
      scheme: rule?.scheme,
      host: rule?.host.replace(/^.*:.*$/, '[$&]'),
      below: rule?.below,
      port: rule?.port,
    })
  }
  for (const entry of wrong) {
    assert.throws(() => parseAllow([entry]), String(entry))
    assert.throws(() => parseRules([entry], ''), String(entry))
  }
})

test('invalid entries are reported with their paths', () => {
  const find = (allow: unknown): string[] | undefined => {
    try {
      parseAllow(allow)
    } catch (error) {
      assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID', String(error))
      return error.details?.issues?.map(({ path }) => path)
    }
  }
  assert.deepEqual(find(['https://a.example', 'nothing', 'http://b.example', 7]), [
    '/network/allow/1',
    '/network/allow/3',
  ])
  assert.deepEqual(find('https://a.example'), ['/network/allow'])
  assert.equal(find([]), undefined)
})

test('a list entry matches an origin by scheme, host and port, or every subdomain by a wildcard', () => {
  const origins = parseAllow(['https://*.example.com', 'http://[::1]:8080'])
  assert.ok(isListed(origins, 'https', { host: 'a.b.example.com', port: 443 }))
  assert.ok(isListed(origins, 'http', { host: '[::1]', port: 8080 }))
  assert.ok(!isListed(origins, 'https', { host: 'example.com', port: 443 }))
  assert.ok(!isListed(origins, 'https', { host: 'notexample.com', port: 443 }))
  assert.ok(!isListed(origins, 'http', { host: 'a.example.com', port: 443 }))
  assert.ok(!isListed(origins, 'https', { host: 'a.example.com', port: 8443 }))
})

test('a list is a subset of another when the other matches each of its origins', () => {
  const list = ['https://a.example', 'https://*.b.example', 'http://c.example:8080']
  const inside = ['https://a.example', 'https://A.example:443', 'https://x.b.example', 'https://*.b.example']
  assert.deepEqual(outsideOf([...inside, 'https://*.x.b.example', 'http://c.example:8080'], list), [])
  const outside = [
    'http://a.example',
    'https://b.example',
    'https://*.a.example',
    'https://x.c.example',
    'http://c.example',
  ]
  assert.deepEqual(outsideOf([...outside, 'https://a.example:8443', 'https://a.example'], list), [
    ...outside,
    'https://a.example:8443',
  ])
  assert.deepEqual(outsideOf(['https://a.example'], []), ['https://a.example'])
})

test('two lists overlap when some origin matches both', () => {
  assert.ok(overlap(['https://*.a.example'], ['http://x.example', 'https://b.a.example']))
  assert.ok(overlap(['https://b.a.example'], ['https://*.a.example']))
  assert.ok(!overlap(['https://a.example'], ['https://*.a.example', 'http://a.example', 'https://a.example:444']))
  assert.ok(!overlap(['https://a.example'], []))
})
