import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createBus } from '../observe/bus.ts'
import { nativeCodec } from './codecs/native.ts'
import { createMessageRefusals, type Refusal } from './inbound.ts'
import { unpackMessage } from './transports/transport.ts'

const codec = nativeCodec({ transport: 'redis', mayReplyTo: () => true, deadLettersTo: 'dead' })
const address = { codec: 'native', transport: 'redis', to: 'answers', data: {} }

function refusal(bytes: Uint8Array, more: Partial<Refusal> = {}): Refusal {
  const message = { bytes, headers: new Map(), source: 'calls', position: '1-0' }
  const error = new ToolError('PAYLOAD_INVALID', 'It is nothing.')
  return { error, dead: true, deliveries: 2, source: 'calls', position: '1-0', message, codec, ...more }
}

type Rows = { readonly [column: string]: string }[]

/** The stored parts of refusals, and the events that report them. */
async function keep(...refusals: Refusal[]) {
  const kept = { deadLetters: [] as Rows, messages: [] as Rows, events: [] as object[], statements: 0 }
  const bus = createBus()
  bus.on('message:refused', (event) => kept.events.push(event))
  const refuse = createMessageRefusals({
    database: {
      async query<R>(_sql: string, [deadLetters, messages]: readonly unknown[] = []): Promise<R[]> {
        kept.statements += 1
        kept.deadLetters.push(...JSON.parse(String(deadLetters)))
        kept.messages.push(...JSON.parse(String(messages)))
        return []
      },
    },
    answers: { refusal: ({ to }, { code }) => ({ target: to, body: code }) },
    bus,
    sources: { tenantOf: (source) => `tenant of ${source}`, transportOf: () => 'redis' },
    now: () => new Date(0),
  })
  await Promise.all(refusals.map(refuse))
  return kept
}

test('a message that cannot be decoded leaves a dead letter, one for the broker and a reply, in one statement', async () => {
  const { deadLetters, messages, events, statements } = await keep(refusal(Buffer.from('what?'), { address }))
  assert.equal(statements, 1)
  const [{ id = '', ...deadLetter } = {}] = deadLetters
  assert.match(id, /^message-[0-9a-f]{32}$/)
  assert.deepEqual(deadLetter, {
    tenant: 'tenant of calls',
    source: 'calls',
    deliveries: 2,
    code: 'PAYLOAD_INVALID',
    reason: 'It is nothing.',
    payload: 'what?',
  })
  assert.deepEqual(messages[0], { tenant: 'tenant of calls', target: 'answers', body: 'PAYLOAD_INVALID' })
  const { transport, message } = unpackMessage(messages[1]?.body ?? '')
  assert.deepEqual([transport, message.to, messages[1]?.target], ['redis', 'dead', 'dead'])
  assert.equal(JSON.parse(Buffer.from(message.bytes).toString()).message, 'what?')
  assert.deepEqual(events, [{ source: 'calls', code: 'PAYLOAD_INVALID', dead: true }])
})

test('a refusal that is sent to its sender is no dead letter', async () => {
  const { deadLetters, messages } = await keep(refusal(Buffer.from('{}'), { dead: false, address }))
  assert.deepEqual(deadLetters, [])
  assert.deepEqual(messages, [{ tenant: 'tenant of calls', target: 'answers', body: 'PAYLOAD_INVALID' }])
})

test('the dead letter and the reply belong to the tenant of the sender, once the sender is identified', async () => {
  const sender = { principal: 'bots', tenant: 'acme', permissions: [] }
  const { deadLetters, messages } = await keep(
    refusal(Buffer.from('{}'), { address, sender }),
    refusal(Buffer.from('?')),
  )
  assert.deepEqual(
    deadLetters.map(({ tenant }) => tenant),
    ['acme', 'tenant of calls'],
  )
  assert.deepEqual(
    messages.map(({ tenant, target }) => [tenant, target]),
    [
      ['acme', 'answers'],
      ['acme', 'dead'],
      ['tenant of calls', 'dead'],
    ],
  )
})

test('repeated deliveries of a message share one dead letter, and another message has its own', async () => {
  const bytes = Buffer.from('x')
  const { deadLetters } = await keep(refusal(bytes), refusal(bytes), refusal(bytes, { position: '1-1' }))
  const ids = deadLetters.map(({ id }) => id)
  assert.equal(ids.length, 3)
  assert.equal(new Set(ids).size, 2)
})

test('a dead letter keeps only the beginning of a message, as text or in base64', async () => {
  const { deadLetters } = await keep(refusal(Buffer.alloc(1_000_000, 'a')), refusal(Buffer.alloc(1_000_000, 0xff)))
  assert.equal(deadLetters[0]?.payload, 'a'.repeat(16_384))
  assert.equal(deadLetters[1]?.payload, `base64:${Buffer.alloc(16_384, 0xff).toString('base64')}`)
})

test('characters that SQL cannot hold are replaced, and a message that was removed unread has no payload', async () => {
  const odd = new ToolError('PAYLOAD_INVALID', 'a\0b\ud800')
  const { message: _, ...gone } = refusal(Buffer.from('a\0b'), { position: '2-0' })
  const { deadLetters, messages } = await keep(refusal(Buffer.from('a\0b'), { error: odd, tool: 'x\0' }), gone)
  assert.deepEqual(
    [deadLetters[0]?.payload, deadLetters[0]?.reason, deadLetters[0]?.tool],
    ['a\ufffdb', 'a\ufffdb\ufffd', 'x\ufffd'],
  )
  assert.equal(deadLetters[1] !== undefined && 'payload' in deadLetters[1], false)
  assert.equal(messages.length, 1)
})
