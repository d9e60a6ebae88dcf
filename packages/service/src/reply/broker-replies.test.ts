import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Result, ToolError } from '@gantry/contract'
import type { Codec } from '../brokers/codecs/codec.ts'
import { type Outgoing, packMessage, type Sent } from '../brokers/transports/transport.ts'
import { someResult } from '../conformance/call-store/samples.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import { createBrokerReplies } from './broker-replies.ts'

const address: ReplyAddress = { codec: 'plain', transport: 'test', to: 'answers', data: { id: '1' } }
const never = new AbortController().signal

const resultOf = (callId: string): Result => someResult(callId, { output: 1 })

const plain: Codec = {
  kind: 'plain',
  speaks: () => true,
  decode: () => ({ kind: 'invalid', error: new ToolError('PAYLOAD_INVALID', 'No.') }),
  reply: ({ to, data }, reply) => {
    const said = reply.kind === 'ended' ? { result: reply.result } : { error: reply.error.code }
    return { to, bytes: Buffer.from(JSON.stringify({ ...data, ...said })) }
  },
}

function answersTo(answer: (message: Outgoing) => Sent) {
  const sent: string[] = []
  const marked: string[] = []
  const publisher = {
    async send(messages: readonly Outgoing[]) {
      sent.push(...messages.map(({ to, bytes }) => `${to} ${Buffer.from(bytes)}`))
      return messages.map(answer)
    },
    close: async () => undefined,
  }
  const answers = createBrokerReplies({
    codecs: new Map([['plain', plain]]),
    publishers: new Map([['test', publisher]]),
    outcomes: async (ids) => new Map(ids.filter((id) => id !== 'running').map((id) => [id, resultOf(id)])),
    files: async () => [],
    answered: async (ids) => void marked.push(...ids),
    unanswered: async (ids) => void marked.push(...ids.map((id) => `left ${id}`)),
    now: () => new Date(0),
  })
  return { answers, sent, marked }
}

function item(given: Partial<OutboxItem>): OutboxItem {
  return { id: 1, callId: 'c1', tenant: 't', kind: 'reply', target: 'answers', tries: 1, ...given }
}

test('the reply to a call that ended here is sent at once and marked as sent; when that fails it is left to the relay', async () => {
  const good = answersTo(() => ({ kind: 'sent' }))
  good.answers.tell('c1', address, resultOf('c1'), 't')
  good.answers.tell('c2', address, resultOf('c2'), 't')
  await good.answers.settled()
  assert.equal(good.sent.length, 2)
  assert.deepEqual(good.marked, ['c1', 'c2'])
  const bad = answersTo(() => ({ kind: 'again', error: 'unavailable' }))
  bad.answers.tell('c1', address, resultOf('c1'), 't')
  await bad.answers.settled()
  assert.deepEqual(bad.marked, ['left c1'])
})

test('a reply of the outbox goes to the address of its call, or to the later one with the same key', async () => {
  const { answers, sent } = answersTo(() => ({ kind: 'sent' }))
  assert.deepEqual(await answers.send(item({ reply: address }), never), { kind: 'sent' })
  const later = { ...address, to: 'elsewhere', data: { id: '2' } }
  assert.deepEqual(await answers.send(item({ reply: address, body: JSON.stringify(later) }), never), { kind: 'sent' })
  assert.match(sent[0] ?? '', /^answers \{"id":"1","result":\{"callId":"c1"/)
  assert.match(sent[1] ?? '', /^elsewhere \{"id":"2"/)
})

test('the reply to a call that has not ended is retried, and to one that is no longer stored never sent', async () => {
  const { answers, sent } = answersTo(() => ({ kind: 'sent' }))
  assert.equal((await answers.send(item({ callId: 'running', reply: address }), never)).kind, 'again')
  assert.equal((await answers.send(item({}), never)).kind, 'never')
  assert.deepEqual(sent, [])
})

test('a packed message is sent unchanged', async () => {
  const { answers, sent } = answersTo(() => ({ kind: 'sent' }))
  const body = packMessage('test', { to: 'news', bytes: Buffer.from([104, 105]), headers: { a: 'b' } })
  assert.deepEqual(await answers.send(item({ kind: 'message', callId: '', body }), never), { kind: 'sent' })
  assert.deepEqual(sent, ['news hi'])
})

test('items for a broker that is no longer configured, or an unknown codec, wait', async () => {
  const { answers } = answersTo(() => ({ kind: 'sent' }))
  const foreign = item({ reply: { ...address, transport: 'other' } })
  assert.equal((await answers.send(foreign, never)).kind, 'again')
  assert.equal((await answers.send(item({ reply: { ...address, codec: 'old' } }), never)).kind, 'again')
  assert.equal(answers.refusal({ ...address, transport: 'other' }, new ToolError('INPUT_INVALID', 'No.')), undefined)
})
