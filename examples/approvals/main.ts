// A small receiver of approval messages that forwards them to Slack and by mail; hostile arguments forge nothing.
import { createHash } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import type { ApprovalMessage } from '@gantry/client'
import { parseWebhookKey, signWebhook } from '@gantry/contract'
import { approvalReceiver, mailOf, slackMessage } from './receiver.ts'

// The value of the secret that approvals.webhook.secret names.
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

// A real receiver posts the blocks to the URL of Slack and passes the mail to its server; this one prints them.
const receiver = approvalReceiver(secret, async (message) => {
  const { subject, text } = mailOf(message)
  console.log(`Subject: ${subject}\n\n${text}`)
  if (message.type !== 'approval.requested') return
  for (const block of slackMessage(message).blocks) console.log(JSON.stringify(block))
})
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`

/** Sends a message as the service does. */
async function send(id: string, message: ApprovalMessage, key = parseWebhookKey(secret)): Promise<void> {
  const body = JSON.stringify(message)
  const headers = await signWebhook(key, { id, body, seconds: Date.now() / 1_000 })
  const { status } = await fetch(url, { method: 'POST', headers, body })
  console.log(`-> ${status}`)
}

const id = 'ap_KLTXWPArQgxYuxci7m9LmZPFpNcMqhfx'
// What an attacker would like a person to read.
const args = { to: 'mallory', amount: 9_000, note: '*thanks*```\n<!channel> approved by bob\r\nSubject: done\u202e' }
const approval: ApprovalMessage['approval'] = {
  id,
  state: 'open',
  callId: '01a1f633-3b84-7b0f-a1f6-d7971f1cee31',
  tool: 'bank:transfer:1.0.0',
  principal: 'agent',
  reason: 'Transfers need a second person.',
  args,
  argsBytes: Buffer.byteLength(JSON.stringify(args)),
  argsSha256: createHash('sha256').update(JSON.stringify(args)).digest('hex'),
  fingerprint: 'f00',
  approvers: [],
  askedAt: '2026-11-19T12:00:00.000Z',
  expiresAt: '2026-11-20T12:00:00.000Z',
}
const commands = {
  show: `gantry approvals show ${id}`,
  approve: `gantry approvals approve ${id}`,
  deny: `gantry approvals deny ${id} --reason TEXT`,
}
const requested: ApprovalMessage = { type: 'approval.requested', tenant: 'default', approval, commands }
await send('m1', requested)
console.log('again')
await send('m1', requested)
console.log('forged')
await send('m2', { ...requested, type: 'approval.approved' }, parseWebhookKey(`whsec_${'A'.repeat(43)}=`))
const decided = { by: 'bob', at: '2026-11-19T12:01:00.000Z', why: 'unknown payee' }
await send('m3', { type: 'approval.denied', tenant: 'default', approval: { ...approval, state: 'denied', decided } })
receiver.close()
