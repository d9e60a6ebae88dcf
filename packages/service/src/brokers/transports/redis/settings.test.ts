import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRedisUrl } from '../../../config/broker-settings.ts'
import { redisSettings } from './connection.ts'
import { besideKey } from './group.ts'

test('an address names a server, the sentinels of one, or the servers of a cluster', () => {
  const usual = { secure: false, username: '', password: '', database: 0, name: '' }
  const server = { ...usual, kind: 'server', hosts: [{ host: 'h', port: 6_379 }] }
  assert.deepEqual(parseRedisUrl('redis://h'), server)
  assert.deepEqual(parseRedisUrl('redis://h/?db=9#x'), server, 'parameters are ignored')
  assert.deepEqual(parseRedisUrl('rediss://u:p%40s@[::1]:7/3'), {
    kind: 'server',
    secure: true,
    username: 'u',
    password: 'p@s',
    database: 3,
    name: '',
    hosts: [{ host: '::1', port: 7 }],
  })
  assert.deepEqual(parseRedisUrl('redis+sentinel://:p@a,b:7/main/2'), {
    kind: 'sentinel',
    secure: false,
    username: '',
    password: 'p',
    database: 2,
    name: 'main',
    hosts: [
      { host: 'a', port: 26_379 },
      { host: 'b', port: 7 },
    ],
  })
  assert.deepEqual(parseRedisUrl('rediss+cluster://a:1,b:2').hosts, [
    { host: 'a', port: 1 },
    { host: 'b', port: 2 },
  ])
})

test('an address in another form is refused, and no part of it is repeated', () => {
  const wrong = [
    ...[
      'redis://a,b',
      'redis+sentinel://a',
      'redis+sentinel://a/',
      'redis+sentinel://a/x y',
      'redis+sentinel://a/m/db',
    ],
    'redis+cluster://a/1',
    'redis+cluster://',
    'redis+cluster://a,,b',
    'redis+other://a',
    'redis+cluster://a:x',
    `redis+cluster://${'a,'.repeat(100)}a`,
  ]
  for (const url of wrong) {
    assert.throws(
      () => parseRedisUrl(url.replace('//', '//:hunter2@')),
      (error: Error & { code?: string }) => {
        return error.code === 'CONFIG_INVALID' && !error.message.includes('hunter2')
      },
      url,
    )
  }
})

test('sentinels use their own password, else that of the servers, and TLS when the servers do', () => {
  const url = 'rediss+sentinel://:servers@a/main'
  const { password, sentinelPassword, enableTLSForSentinelMode, tls, sentinelTLS } = redisSettings({
    url,
    sentinel: { password: 'sentinels' },
    tls: { ca: 'x' },
  })
  assert.deepEqual([password, sentinelPassword, enableTLSForSentinelMode], ['servers', 'sentinels', true])
  assert.deepEqual([tls, sentinelTLS], [{ ca: 'x' }, { ca: 'x' }])
  assert.equal(redisSettings({ url }).sentinelPassword, 'servers')
})

test('a companion key is on the same server of a cluster as its key', () => {
  assert.equal(besideKey('sg:stream:tools', ':gone'), '{sg:stream:tools}:gone')
  assert.equal(besideKey('a{b}c', ':gone'), 'a{b}c:gone')
  assert.equal(besideKey('a{}c', ':gone'), '{a{}c}:gone')
})
