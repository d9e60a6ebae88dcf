import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verifyCallback } from '@gantry/client'
import { parseWebhookKey, signWebhook } from '@gantry/contract'

test('verifyCallback accepts what signWebhook signs', async () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const body = JSON.stringify({ callId: 'c1', status: 'ok', output: 'ü' })
  const headers = await signWebhook(parseWebhookKey(secret), { id: 'c1_1', body, seconds: Date.now() / 1_000 })
  assert.deepEqual(await verifyCallback(headers, body, secret), JSON.parse(body))
})
