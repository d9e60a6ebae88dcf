import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Codec, TaskRecord } from '../brokers/codecs/codec.ts'
import type { Outgoing, Sent } from '../brokers/transports/transport.ts'
import type { Claim, ReplyAddress } from '../storage/calls/call-store.ts'
import { createNotices, type NoticesOptions } from './notices.ts'

const address: ReplyAddress = { codec: 'test', transport: 'redis', to: 'replies', data: {} }
const bytes = (text: string): Uint8Array => Buffer.from(text)
const codec: Codec = {
  kind: 'test',
  speaks: () => true,
  decode: () => assert.fail(),
  reply: () => assert.fail(),
  started: (_address, { callId }) => ({ to: 'watch', bytes: bytes(`start ${callId}`) }),
  progress: (_address, { progress, number }) => ({ to: 'watch', bytes: bytes(`progress ${number} ${progress}`) }),
  background: ({ to }, { callId }) => ({
    answer: { to, bytes: bytes(`interim ${callId}`) },
    task: { key: `task:${callId}`, fields: { status: 'running' }, ttlMs: 1_000 },
  }),
}

function claimOf(callId: string, tool = 'test:slow'): Claim {
  const identity = { principal: 'p', tenant: 't', permissions: [] }
  const past = { deliveries: 1, lost: 0, deaths: 0, begun: false, faults: 0, rests: 0, cancelled: false }
  const call = { callId, kind: 'call', identity, fingerprint: '', tool, effect: 'read', payloadBytes: 0 } as const
  return { callId, fence: 1, call: { ...call, reply: address }, ...past }
}

/** Notices whose messages are collected in a list; `answer` decides what the broker returns. */
function open(more: Partial<NoticesOptions> & { readonly answer?: (message: Outgoing) => Promise<Sent> | Sent } = {}) {
  const sent: string[] = []
  const tasks: TaskRecord[] = []
  const { answer = () => ({ kind: 'sent' }) as const, ...rest } = more
  const notices = createNotices({
    codecs: new Map([['test', codec]]),
    publishers: new Map([
      [
        'redis',
        {
          send: (messages: readonly Outgoing[]) =>
            Promise.all(
              messages.map(async (message) => {
                const became = await answer(message)
                if (became.kind === 'sent') sent.push(Buffer.from(message.bytes).toString())
                return became
              }),
            ),
          close: async () => undefined,
        },
      ],
    ]),
    tasks: {
      async open(task) {
        tasks.push(task)
        return true
      },
      close: async () => undefined,
      drop: async (key) => void tasks.push({ key, fields: { status: 'dropped' }, ttlMs: 0 }),
    },
    backgroundMs: 1,
    progressMs: 0,
    mayBackground: () => true,
    now: () => new Date(),
    unfinished: async (callIds) => callIds,
    ...rest,
  })
  return { notices, sent, tasks }
}

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 1))
}

test('a gateway gets the start, the progress and the interim answer of a call, and nothing after its end', async () => {
  const { notices, sent, tasks } = open()
  const attempt = notices.open(claimOf('c-1')) ?? assert.fail()
  attempt.report({ kind: 'progress', progress: 1 })
  await until(() => sent.length === 3)
  assert.deepEqual(sent.toSorted(), ['interim c-1', 'progress 1 1', 'start c-1'])
  assert.deepEqual(
    tasks.map(({ key }) => key),
    ['task:c-1'],
  )
  attempt.close()
  const { settled, background } = notices.ended('c-1')
  await settled
  assert.equal(background, true)
  attempt.report({ kind: 'progress', progress: 2 })
  await turn()
  assert.equal(sent.length, 3)
})

test('progress that arrives faster than it is sent is coalesced to the newest, and delays no sender', async () => {
  const gate = Promise.withResolvers<void>()
  const { notices, sent } = open({
    backgroundMs: 0,
    async answer() {
      await gate.promise
      return { kind: 'sent' }
    },
  })
  const attempt = notices.open(claimOf('c-1')) ?? assert.fail()
  for (let progress = 1; progress <= 10_000; progress++) {
    assert.equal(attempt.report({ kind: 'progress', progress }), undefined)
  }
  gate.resolve()
  await until(() => sent.length === 3)
  assert.deepEqual(sent, ['start c-1', 'progress 1 1', 'progress 2 10000'])
  attempt.close()
})

test('the outcome waits for a notice in flight, but not for a broker that does not answer', async () => {
  const gate = Promise.withResolvers<void>()
  const slow = open({
    backgroundMs: 0,
    async answer() {
      await gate.promise
      return { kind: 'sent' }
    },
  })
  slow.notices.open(claimOf('c-1'))?.close()
  const { settled } = slow.notices.ended('c-1')
  const order: string[] = []
  const waited = settled.then(() => order.push('settled'))
  await turn()
  gate.resolve(void order.push('sent'))
  await waited
  assert.deepEqual(order, ['sent', 'settled'])
})

test('a call that another worker executes gets its interim answer only while it is unfinished', async () => {
  const asked: string[][] = []
  const { notices, sent } = open({
    async unfinished(callIds) {
      asked.push([...callIds])
      return callIds.filter((callId) => callId === 'waits')
    },
  })
  notices.admitted('waits', 'test:slow', address, false)
  notices.admitted('done', 'test:slow', address, false)
  notices.admitted('short', 'test:slow', address, false)
  assert.equal(notices.ended('short').background, false, 'it ended before')
  await until(() => sent.length === 1 && asked.flat().includes('done'))
  assert.deepEqual(sent, ['interim waits'])
})

test('a failed interim answer is retried while the call lasts, and each waiting sender gets one', async () => {
  let refusals = 1
  const { notices, sent } = open({
    answer: ({ to }) => (to === 'replies' && refusals-- > 0 ? { kind: 'never', error: 'No.' } : { kind: 'sent' }),
  })
  const other = { ...address, to: 'others' }
  const attempt = notices.open(claimOf('c-1'))
  notices.admitted('c-1', 'test:slow', address, false)
  notices.admitted('c-1', 'test:slow', other, true)
  await until(() => sent.includes('interim c-1'))
  attempt?.close()
  notices.close()
})

test('the record of a background task has the time of the call, and not that of its interim answer', async () => {
  let time = 1_000
  const dated: Codec = {
    ...codec,
    background: ({ to }, { callId }, since) => ({
      answer: { to, bytes: bytes(`interim ${callId}`) },
      task: { key: `task:${callId}`, fields: { status: 'running', at: String(since.getTime()) }, ttlMs: 1_000 },
    }),
  }
  const { notices, sent, tasks } = open({ codecs: new Map([['test', dated]]), now: () => new Date(time) })
  notices.admitted('c-1', 'test:slow', address, false)
  time = 9_000
  await until(() => sent.length === 1)
  assert.equal(tasks[0]?.fields.at, '1000')
  notices.close()
})

test('a tool that opts out, or settings without a background, give no interim answer', async () => {
  const { notices, sent, tasks } = open({ mayBackground: (tool) => tool !== 'test:alone' })
  const attempt = notices.open(claimOf('c-1', 'test:alone')) ?? assert.fail()
  notices.admitted('c-1', 'test:alone', address, false)
  // A call that is admitted later gets its interim answer later.
  notices.admitted('control', 'test:slow', address, false)
  await until(() => sent.includes('interim control'))
  assert.deepEqual(sent, ['start c-1', 'interim control'])
  assert.deepEqual(
    tasks.map(({ key }) => key),
    ['task:control'],
  )
  attempt.close()
  const never = open({ backgroundMs: 0 })
  never.notices.admitted('c-1', 'test:slow', address, false)
  assert.equal(never.notices.ended('c-1').background, true, 'nothing is known of it')
})

test('a call that ended before the notice of its admission is not watched', async () => {
  const asked: string[] = []
  const { notices } = open({
    async unfinished(callIds) {
      asked.push(...callIds)
      return []
    },
  })
  notices.ended('c-1')
  notices.admitted('c-1', 'test:slow', address, false)
  notices.admitted('control', 'test:slow', address, false)
  await until(() => asked.includes('control'))
  assert.deepEqual(asked, ['control'])
})

test('the record of a task stays when its call ends while the interim answer is in flight', async () => {
  const published = Promise.withResolvers<void>()
  let asked = 0
  const { notices, sent, tasks } = open({
    async answer({ to }) {
      if (to === 'replies') await published.promise
      return { kind: 'sent' }
    },
    async unfinished() {
      asked += 1
      return []
    },
  })
  const attempt = notices.open(claimOf('c1'))
  await until(() => tasks.length === 1)
  attempt?.close()
  const { settled } = notices.ended('c1')
  published.resolve()
  await settled
  assert.deepEqual(sent, ['start c1', 'interim c1'])
  assert.deepEqual([tasks.map(({ fields }) => fields.status), asked], [['running'], 0])
})
