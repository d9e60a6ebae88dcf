import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import { readGatewayRequest } from './gateway-request.ts'

test('a sleep request needs a finite time of at least 0 ms', () => {
  const asked = (text: string) => readGatewayRequest({ number: 1, kind: 'sleep', text })
  for (const ms of [0, 1.5, 1e300]) assert.deepEqual(asked(JSON.stringify({ ms })), { kind: 'sleep', ms })
  for (const text of ['{"ms":1e999}', '{"ms":-1}', '{"ms":"5"}', '{"ms":null}', '{}']) {
    const read = asked(text)
    assert.ok(read.kind === 'wrong', text)
    assert.deepEqual([read.error.code, read.error.effect], ['INPUT_INVALID', 'none'])
  }
})

test('a request with a lone surrogate is malformed, and the error has its path', () => {
  const wrongs = [
    ['call', '{"tool":"a:b","args":{"text":"\\ud800"}}', '/args/text', ''],
    ['call', '{"tool":"a:b","args":{"rows":[{"\\udfff":1}]}}', '/args/rows/0', 'has a key that '],
    ['chain', '{"steps":[{"tool":"a:b","args":{"x":"\\ud800"}}]}', '/steps/0/args/x', ''],
    ['search', '{"words":"\\ud800"}', '/words', ''],
    ['artifact', '{"put":{"name":"a","content":"\\ud800"}}', '/put/content', ''],
  ] as const
  for (const [kind, text, path, key] of wrongs) {
    const read = readGatewayRequest({ number: 1, kind, text })
    assert.ok(read.kind === 'wrong', text)
    const issues = [{ path, message: `${key}holds half of a character pair` }]
    assert.deepEqual([read.error.code, read.error.effect, read.error.details], ['INPUT_INVALID', 'none', { issues }])
  }
  const whole = readGatewayRequest({ number: 1, kind: 'search', text: '{"words":"\\ud83d\\ude00"}' })
  assert.deepEqual(whole, { kind: 'search', words: '😀', limit: undefined })
})

test('a request with more members than arguments may have is refused unparsed, and the error names the limit', () => {
  const asked = (args: Json) =>
    readGatewayRequest({ number: 1, kind: 'call', text: JSON.stringify({ tool: 'a:b', args }) })
  const keys = (count: number): Json => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]))
  const rows = (count: number): Json => Array.from({ length: count }, () => ({ a: 1 }))
  for (const args of [keys(300_000), { rows: rows(60_000) }, Array.from({ length: 100_100 }, () => [])]) {
    const read = asked(args)
    assert.ok(read.kind === 'wrong')
    assert.deepEqual([read.error.code, read.error.details?.limit], ['INPUT_INVALID', 'members'])
    assert.match(read.error.message, /more than 100000 members/)
  }
  for (const args of [
    keys(99_999),
    rows(50_000),
    Array.from({ length: 100_000 }, () => ({})),
    ',{['.repeat(90_000),
    '\\"'.repeat(99_999),
  ]) {
    assert.equal(asked(args).kind, 'call')
  }
})
