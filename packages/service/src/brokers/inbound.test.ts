import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { createBus } from '../observe/bus.ts'
import type { ReplyAddress } from '../storage/calls/call-store.ts'
import type { Codec, Decoded } from './codecs/codec.ts'
import { createInbound, type InboundPorts, type Refusal } from './inbound.ts'
import type { Delivery, Message, Transport } from './transports/transport.ts'

const identity: Identity = { principal: 'p', tenant: 't', permissions: [] }
const address: ReplyAddress = { codec: 'test', transport: 'test', to: 'answers', data: {} }
const call: Decoded = { kind: 'call', input: { kind: 'call', tool: 'demo:add', args: {} }, address }

function delivery(id: string, deliveries = 1): Delivery {
  const message: Message = { bytes: Buffer.from(id), headers: new Map(), source: 'calls', position: id }
  return { id, body: { kind: 'message', message }, deliveries }
}

/** An intake that records its actions, in order. */
function intake(given: Partial<InboundPorts> = {}, decoded: Decoded = call) {
  const done: string[] = []
  const refused: Refusal[] = []
  const transport: Transport = {
    kind: 'test',
    receive: async () => [],
    settle: async (those) => void done.push(`settle ${those.map(({ id }) => id)}`),
    release: async (those, delayMs) => void done.push(`release ${those.map(({ id }) => id)} ${delayMs}`),
    wake: () => undefined,
    close: async () => undefined,
  }
  const codec: Codec = {
    kind: 'test',
    speaks: () => true,
    decode: () => decoded,
    reply: () => ({ to: 'answers', bytes: new Uint8Array() }),
  }
  const inbound = createInbound({
    transport,
    codecOf: () => codec,
    identify: async () => identity,
    understand: async ({ input }) => input,
    submit: async () => {
      done.push('submit')
      return { callId: 'c', repeated: false }
    },
    attach: async (callId) => void done.push(`attach ${callId}`),
    async refuse(refusal) {
      refused.push(refusal)
      done.push(`refuse ${refusal.error.code}`)
    },
    bus: createBus(),
    ...given,
  })
  const take = async (...deliveries: Delivery[]): Promise<string[]> => {
    inbound.take(deliveries)
    await inbound.empty()
    return done
  }
  return { take, refused }
}

function failing(code: ConstructorParameters<typeof ToolError>[0], details = {}): () => Promise<never> {
  return async () => {
    throw new ToolError(code, 'No.', { details })
  }
}

test('a message is settled once its call is stored, those of a batch together', async () => {
  assert.deepEqual(await intake().take(delivery('a')), ['submit', 'settle a'])
  assert.deepEqual(await intake().take(delivery('a'), delivery('b')), ['submit', 'submit', 'settle a,b'])
})

test('a repeated message attaches its reply address to the stored call', async () => {
  const again = intake({ submit: async () => ({ callId: 'first', repeated: true }) })
  assert.deepEqual(await again.take(delivery('a')), ['attach first', 'settle a'])
  const silent = intake(
    { submit: async () => ({ callId: 'first', repeated: true }) },
    { kind: 'call', input: call.input },
  )
  assert.deepEqual(await silent.take(delivery('a')), ['settle a'])
})

test('a message that cannot be decoded becomes a dead letter and is settled', async () => {
  const wrong = new ToolError('PAYLOAD_INVALID', 'This is nothing.')
  const unread = intake({}, { kind: 'invalid', error: wrong, address })
  assert.deepEqual(await unread.take(delivery('a')), ['refuse PAYLOAD_INVALID', 'settle a'])
  assert.equal(unread.refused[0]?.dead, true)
  assert.equal(unread.refused[0]?.address, address)
  const foreign = intake({ codecOf: () => undefined })
  assert.deepEqual(await foreign.take(delivery('a')), ['refuse PAYLOAD_INVALID', 'settle a'])
  assert.equal(foreign.refused[0]?.dead, true)
})

test('a refused call is answered to its sender; without a reply address it is a dead letter', async () => {
  const addressed = intake({ submit: failing('TOOL_NOT_FOUND') })
  assert.deepEqual(await addressed.take(delivery('a')), ['refuse TOOL_NOT_FOUND', 'settle a'])
  assert.equal(addressed.refused[0]?.dead, false)
  const unaddressed = intake({ submit: failing('TOOL_NOT_FOUND') }, { kind: 'call', input: call.input })
  await unaddressed.take(delivery('a'))
  assert.equal(unaddressed.refused[0]?.dead, true)
  const unknown = intake({ identify: failing('UNAUTHENTICATED') })
  assert.deepEqual(await unknown.take(delivery('a')), ['refuse UNAUTHENTICATED', 'settle a'])
})

test('a refusal names the sender as soon as the sender is identified', async () => {
  const late: Partial<InboundPorts>[] = [{ understand: failing('CATALOG_STALE') }, { submit: failing('DENIED') }]
  for (const given of late) {
    const known = intake(given)
    await known.take(delivery('a'))
    assert.deepEqual(known.refused[0]?.sender, identity)
  }
  const unknown = intake({ identify: failing('UNAUTHENTICATED') })
  await unknown.take(delivery('a'))
  assert.deepEqual([unknown.refused.length, unknown.refused[0]?.sender], [1, undefined])
})

test('while the store is unavailable or full the message goes back to its broker, with a longer delay each time', async () => {
  const unavailable = { submit: failing('STORE_UNAVAILABLE') }
  assert.deepEqual(await intake(unavailable).take(delivery('a')), ['release a 200'])
  assert.deepEqual(await intake(unavailable).take(delivery('a', 3)), ['release a 800'])
  assert.deepEqual(await intake(unavailable).take(delivery('a', 90)), ['release a 10000'])
  const full = intake({ submit: failing('RATE_LIMITED', { retryAfterMs: 1_500 }) })
  assert.deepEqual(await full.take(delivery('a')), ['release a 1500'])
})

test('a message of a sender over its own limit is released a few times, and then refused', async () => {
  const over = (retryAfterMs: number) => ({ submit: failing('RATE_LIMITED', { retryAfterMs, scope: 'caller' }) })
  assert.deepEqual(await intake(over(300)).take(delivery('a')), ['release a 300'])
  assert.deepEqual(await intake(over(300)).take(delivery('a', 4)), ['release a 1600'])
  assert.deepEqual(await intake(over(300)).take(delivery('a', 5)), ['refuse RATE_LIMITED', 'settle a'])
  assert.deepEqual(await intake(over(60_000)).take(delivery('a')), ['refuse RATE_LIMITED', 'settle a'])
})

test('a message that is left to another worker is refused after 50 deliveries', async () => {
  const elsewhere = { submit: failing('SERVICE_UNAVAILABLE') }
  assert.deepEqual(await intake(elsewhere).take(delivery('a', 49)), ['release a 10000'])
  assert.deepEqual(await intake(elsewhere).take(delivery('a', 50)), ['refuse SERVICE_UNAVAILABLE', 'settle a'])
})

test('a refusal that cannot be stored leaves the message with its broker', async () => {
  const lost = intake({ submit: failing('TOOL_NOT_FOUND'), refuse: failing('STORE_UNAVAILABLE') })
  assert.deepEqual(await lost.take(delivery('a')), ['release a 200'])
})

test('a message that fails with an unexpected error becomes a dead letter after five deliveries', async () => {
  const broken = {
    submit: async () => {
      throw new TypeError('a bug')
    },
  }
  assert.deepEqual(await intake(broken).take(delivery('a', 4)), ['release a 1600'])
  const last = intake(broken)
  assert.deepEqual(await last.take(delivery('a', 5)), ['refuse INTERNAL', 'settle a'])
  assert.equal(last.refused[0]?.dead, true)
  assert.doesNotMatch(last.refused[0]?.error.message ?? '', /a bug/)
})

test('a message that was removed before it was settled becomes a dead letter and emits message:gone', async () => {
  const bus = createBus()
  const alarms: string[] = []
  bus.on('message:gone', ({ position }) => alarms.push(position))
  const gone = intake({ bus })
  const done = await gone.take({ id: 'x', body: { kind: 'gone', source: 'calls', position: '7-0' }, deliveries: 2 })
  assert.deepEqual(done, ['refuse PAYLOAD_INVALID', 'settle x'])
  assert.deepEqual(alarms, ['7-0'])
  assert.equal(gone.refused[0]?.message, undefined)
})
