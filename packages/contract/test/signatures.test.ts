import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { parseWebhookKey, signWebhook, verifyWebhook, type WebhookVerdict } from '../src/signatures.ts'

const key = parseWebhookKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
const message = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', body: '{"test": 2432232314}', seconds: 1_614_265_330 }
const nowMs = message.seconds * 1_000
const other = parseWebhookKey(`whsec_${Buffer.alloc(32, 7).toString('base64')}`)

test('signWebhook produces the signature of the example published by Standard Webhooks', async () => {
  assert.deepEqual(await signWebhook(key, message), {
    'webhook-id': message.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('a signature is an HMAC-SHA256 over id, time and body, for any characters', async () => {
  const body = '{"text":"größer 🎈 \\u0000"}'
  const hmac = createHmac('sha256', key).update(`a.5.${body}`).digest('base64')
  const headers = await signWebhook(key, { id: 'a', body, seconds: 5.9 })
  assert.equal(headers['webhook-signature'], `v1,${hmac}`)
})

test('a signed message is verified among signatures of other keys and versions', async () => {
  const headers = await signWebhook(key, message)
  const { body } = message
  assert.equal(await verifyWebhook([key], { headers, body, nowMs }), 'valid')
  const many = { ...headers, 'webhook-signature': `v1a,abc v1,${'A'.repeat(43)}= ${headers['webhook-signature']}` }
  assert.equal(await verifyWebhook([other, key], { headers: many, body, nowMs }), 'valid')
  assert.equal(await verifyWebhook([key], { headers, body, nowMs: nowMs + 299_000 }), 'valid')
})

test('a message with a changed body, id, time or key is refused, and so is an old message', async () => {
  const headers = await signWebhook(key, message)
  const { seconds, body } = message
  const refused = async (verdict: WebhookVerdict, changed: object, more: object = {}): Promise<void> => {
    const asked = { headers: { ...headers, ...changed }, body, nowMs, ...more }
    assert.equal(await verifyWebhook([key], asked), verdict, JSON.stringify([changed, more]))
  }
  await refused('forged', {}, { body: `${body} ` })
  await refused('forged', { 'webhook-id': 'other' })
  await refused('unsigned', { 'webhook-id': '' })
  await refused('unsigned', { 'webhook-id': undefined })
  await refused('forged', { 'webhook-timestamp': String(seconds + 1) })
  await refused('expired', { 'webhook-timestamp': `${seconds}.0` })
  await refused('expired', { 'webhook-timestamp': 'NaN' })
  await refused('forged', { 'webhook-signature': '' })
  await refused('forged', { 'webhook-signature': 'v1,' })
  await refused('forged', { 'webhook-signature': headers['webhook-signature'].slice(3) })
  await refused('forged', { 'webhook-signature': headers['webhook-signature'].replace('v1,', 'v2,') })
  await refused('unsigned', { 'webhook-signature': [headers['webhook-signature']] })
  await refused('expired', {}, { nowMs: nowMs + 301_000 })
  await refused('expired', {}, { nowMs: nowMs - 301_000 })
  await refused('expired', {}, { nowMs: Number.NaN })
  assert.equal(await verifyWebhook([other], { headers, body, nowMs }), 'forged')
})

test('an invalid key is refused, and the error does not contain it', () => {
  const wrong = ['', 'whsec_', 'secret', 'whsec_c2hvcnQ=', 'whsec_!!!!', `whsec_${'A'.repeat(100)}`, 'whsec_AAAAA']
  for (const text of wrong) {
    assert.throws(
      () => parseWebhookKey(text),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'CONFIG_INVALID')
        assert.equal(text.length > 6 && error.message.includes(text), false)
        return true
      },
    )
  }
})
