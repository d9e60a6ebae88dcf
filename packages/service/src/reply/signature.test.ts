import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { parseWebhookKey, signWebhook, verifyWebhook } from './signature.ts'

const key = parseWebhookKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
const message = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', body: '{"test": 2432232314}', seconds: 1_614_265_330 }

test('a signature is the one of the example that Standard Webhooks publishes', async () => {
  assert.deepEqual(await signWebhook(key, message), {
    'webhook-id': message.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('a signature is an HMAC-SHA256 over id, time and body, whatever characters are in it', async () => {
  const body = '{"text":"größer 🎈 \\u0000"}'
  const hmac = createHmac('sha256', key).update(`a.5.${body}`).digest('base64')
  const headers = await signWebhook(key, { id: 'a', body, seconds: 5.9 })
  assert.equal(headers['webhook-signature'], `v1,${hmac}`)
})

test('a signed message is verified, also with signatures of other keys and versions beside', async () => {
  const headers = await signWebhook(key, message)
  const { seconds, body } = message
  assert.equal(await verifyWebhook(key, { headers, body, seconds }), true)
  const many = { ...headers, 'webhook-signature': `v1a,abc v1,${'A'.repeat(43)}= ${headers['webhook-signature']}` }
  assert.equal(await verifyWebhook(key, { headers: many, body, seconds }), true)
  assert.equal(await verifyWebhook(key, { headers, body, seconds: seconds + 299 }), true)
})

test('a message with another body, id, time or key is refused, and so is an old one', async () => {
  const headers = await signWebhook(key, message)
  const { seconds, body } = message
  const refused = async (changed: object, more: object = {}): Promise<void> => {
    const asked = { headers: { ...headers, ...changed }, body, seconds, ...more }
    assert.equal(await verifyWebhook(key, asked), false, JSON.stringify([changed, more]))
  }
  await refused({}, { body: `${body} ` })
  await refused({ 'webhook-id': 'other' })
  await refused({ 'webhook-id': '' })
  await refused({ 'webhook-id': undefined })
  await refused({ 'webhook-timestamp': String(seconds + 1) })
  await refused({ 'webhook-timestamp': `${seconds}.0` })
  await refused({ 'webhook-timestamp': 'NaN' })
  await refused({ 'webhook-signature': '' })
  await refused({ 'webhook-signature': 'v1,' })
  await refused({ 'webhook-signature': headers['webhook-signature'].slice(3) })
  await refused({ 'webhook-signature': headers['webhook-signature'].replace('v1,', 'v2,') })
  await refused({ 'webhook-signature': [headers['webhook-signature']] })
  await refused({}, { seconds: seconds + 301 })
  await refused({}, { seconds: seconds - 301 })
  await refused({}, { seconds: Number.NaN })
  const other = parseWebhookKey(`whsec_${Buffer.alloc(32, 7).toString('base64')}`)
  assert.equal(await verifyWebhook(other, { headers, body, seconds }), false)
})

test('a text that is no key is refused without being repeated', () => {
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
