import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { verifyCallback } from './callback.ts'

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const body = '{"test": 2432232314}'
const id = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
const time = '1614265330'
/** As the reference implementations of Standard Webhooks sign it. */
const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature }
const options = { now: () => Number(time) * 1_000 }

const isRefused = (error: unknown): boolean => ToolError.is(error) && error.code === 'UNAUTHENTICATED'

test('verifyCallback accepts a callback signed with the secret, or with one of several', async () => {
  assert.deepEqual(await verifyCallback(headers, body, secret, options), { test: 2432232314 })
  assert.deepEqual(await verifyCallback(new Headers(headers), new TextEncoder().encode(body), secret, options), {
    test: 2432232314,
  })
  const node = { 'Webhook-Id': [id], 'Webhook-Timestamp': time, 'Webhook-Signature': `v1a,abc v1,AAAA ${signature}` }
  assert.deepEqual(await verifyCallback(node, body, ['whsec_b3RoZXI=', secret], options), { test: 2432232314 })
})

test('verifyCallback refuses a callback with any change', async () => {
  const changed: readonly (readonly [typeof headers | object, string, string])[] = [
    [headers, `${body} `, secret],
    [headers, body, 'whsec_b3RoZXI='],
    [{ ...headers, 'webhook-id': 'msg_other' }, body, secret],
    [{ ...headers, 'webhook-timestamp': String(Number(time) + 1) }, body, secret],
    [{ ...headers, 'webhook-signature': signature.replace('v1,', 'v2,') }, body, secret],
    [{ ...headers, 'webhook-signature': signature.slice(0, -2) }, body, secret],
    [{ ...headers, 'webhook-signature': '' }, body, secret],
    [{ ...headers, 'webhook-signature': 'v1,***' }, body, secret],
    [{ 'webhook-id': id, 'webhook-timestamp': time }, body, secret],
    [{}, body, secret],
  ]
  for (const [given, text, key] of changed) {
    await assert.rejects(verifyCallback(given as typeof headers, text, key, options), isRefused, JSON.stringify(given))
  }
})

test('verifyCallback refuses an old or future callback although it is signed', async () => {
  const at = (seconds: number) => ({ now: () => (Number(time) + seconds) * 1_000 })
  for (const seconds of [299, -299]) await verifyCallback(headers, body, secret, at(seconds))
  for (const seconds of [301, -301]) await assert.rejects(verifyCallback(headers, body, secret, at(seconds)), isRefused)
  await verifyCallback(headers, body, secret, { ...at(3_000), toleranceMs: 4_000_000 })
})

test('a signed text that is not JSON, and an invalid secret, are distinguished from a forgery', async () => {
  const text = 'hello'
  const raw = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = createHmac('sha256', raw).update(`${id}.${time}.${text}`).digest('base64')
  const own = { ...headers, 'webhook-signature': `v1,${signed}` }
  await assert.rejects(
    verifyCallback(own, text, secret, options),
    (error) => ToolError.is(error) && error.code === 'PAYLOAD_INVALID',
  )
  await assert.rejects(verifyCallback(headers, body, 'no base64!', options), (error) => {
    return ToolError.is(error) && error.code === 'CONFIG_INVALID' && !error.message.includes('base64!')
  })
})
