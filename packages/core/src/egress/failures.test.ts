import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { broken, codeOf, unreachable } from './failures.ts'
import { targetOf } from './target.ts'

const target = targetOf(new URL('https://a.test'))
const coded = (code: string): Error => Object.assign(new Error('hidden words'), { code })

test('codeOf accepts only a plain error code', () => {
  assert.equal(codeOf(coded('ECONNRESET')), 'ECONNRESET')
  for (const error of [coded('with spaces and a /path'), new Error('x'), undefined, 'ECONNRESET', { code: 7 }]) {
    assert.equal(codeOf(error), 'unknown fault')
  }
})

test('a failure has a code and its cause, and its message never repeats the message of the cause', () => {
  assert.ok(target)
  for (const code of ['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'ETIMEDOUT', 'CERT_HAS_EXPIRED', 'EHOSTUNREACH']) {
    const error = unreachable(target, coded(code))
    assert.deepEqual([error.code, error.effect, error.retryable], ['BACKEND_UNAVAILABLE', 'none', true])
    assert.match(error.message, /a\.test/)
    assert.ok(!error.message.includes('hidden'))
    assert.equal(codeOf(error.cause), code)
  }
  for (const code of ['UND_ERR_SOCKET', 'Z_DATA_ERROR', 'HPE_INVALID_CONSTANT', 'OTHER']) {
    assert.ok(!broken('https://a.test', true, coded(code)).message.includes('hidden'))
  }
  assert.deepEqual(
    [true, false].map((safe) => broken('https://a.test', safe, coded('X')).effect),
    ['none', 'possible'],
  )
})

test('a ToolError is passed through unchanged', () => {
  const own = new ToolError('EGRESS_DENIED', 'no')
  assert.ok(target)
  assert.equal(unreachable(target, own), own)
  assert.equal(broken('https://a.test', true, own), own)
})
