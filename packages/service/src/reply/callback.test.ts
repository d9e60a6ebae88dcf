import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { verifyWebhook } from '@gantry/contract'
import { createEgress, type Egress, type EgressAllow, type EgressOptions } from '@gantry/core'
import { someResult } from '../storage/calls.fixture.ts'
import type { OutboxItem } from '../storage/outbox/outbox.ts'
import { type Answer, knownOutcomes, receiver, testKey } from './callback.fixture.ts'
import { type CallbackOptions, createCallbackSender } from './callback.ts'
import type { Send, Sending } from './relay.ts'

const call = { kind: 'call', tool: 'math:add:1.0.0', state: 'ok' } as const
const result = someResult({ callId: 'c1', output: { text: 'größer 🎈' } })

function item(target: string, given: Partial<OutboxItem> = {}): OutboxItem {
  return { id: 7, callId: 'c1', tenant: 'acme', kind: 'callback', target, tries: 1, call, ...given }
}

function guard(t: TestContext, options: EgressOptions): Egress {
  const egress = createEgress(options)
  t.after(() => egress.close())
  return egress
}

/** A sender that may reach these receivers although their addresses are private. */
function sender(t: TestContext, origins: readonly string[], options: Partial<CallbackOptions> = {}): Send {
  const listed = origins.map((origin) => ({ origin, private: true }))
  return createCallbackSender({
    egress: guard(t, {}),
    origins: () => listed,
    keyOf: async () => testKey,
    views: knownOutcomes(result),
    ...options,
  })
}

/** The result of a callback to a receiver with this answer. */
async function sendTo(t: TestContext, answer: Answer, options: Partial<CallbackOptions> = {}): Promise<Sending> {
  const { origin, url } = await receiver(t, answer)
  const sending = await sender(t, [origin], options)(item(url), t.signal)
  return 'error' in sending ? { ...sending, error: sending.error.replace(origin, 'It') } : sending
}

test('the outcome of a call is posted and signed', async (t) => {
  const { origin, url, received } = await receiver(t)
  assert.deepEqual(await sender(t, [origin])(item(url), t.signal), { kind: 'sent' })
  const [got] = received
  assert.ok(got !== undefined && received.length === 1)
  assert.deepEqual([got.method, got.url, got.headers['content-type']], ['POST', '/hook?x=1', 'application/json'])
  assert.deepEqual(JSON.parse(got.body), { callId: 'c1', kind: 'call', tool: 'math:add:1.0.0', state: 'ok', result })
  assert.equal(got.headers['webhook-id'], 'c1_7')
  assert.equal(await verifyWebhook([testKey], got), 'valid')
  assert.equal(await verifyWebhook([testKey], { ...got, body: got.body.replace('"ok"', '"no"') }), 'forged')
})

test('a callback takes its connection slot from the share of its tenant', async (t) => {
  const { origin, url } = await receiver(t)
  const egress = guard(t, {})
  const tenants: (string | undefined)[] = []
  const watched: CallbackOptions['egress'] = {
    request(asked) {
      tenants.push(asked.tenant)
      return egress.request(asked)
    },
  }
  assert.deepEqual(await sender(t, [origin], { egress: watched })(item(url), t.signal), { kind: 'sent' })
  assert.deepEqual(tenants, ['acme'])
})

test('each tenant has its own key, and without one a callback is unsigned', async (t) => {
  const { origin, url, received } = await receiver(t)
  const asked: string[] = []
  const keyOf = async (tenant: string) => {
    asked.push(tenant)
    return tenant === 'acme' ? testKey : undefined
  }
  const send = sender(t, [origin], { keyOf })
  await send(item(url), t.signal)
  await send(item(url, { tenant: 'other' }), t.signal)
  assert.deepEqual(asked, ['acme', 'other'])
  assert.deepEqual(
    received.map(({ headers }) => [headers['webhook-id'], 'webhook-signature' in headers]),
    [
      ['c1_7', true],
      ['c1_7', false],
    ],
  )
})

test('every attempt of a message has the same id', async (t) => {
  const { origin, url, received } = await receiver(t)
  const send = sender(t, [origin])
  for (const tries of [1, 2]) await send(item(url, { tries }), t.signal)
  assert.deepEqual(
    received.map(({ headers }) => headers['webhook-id']),
    ['c1_7', 'c1_7'],
  )
})

test('any status from 200 to 299 accepts a callback', async (t) => {
  for (const status of [200, 202, 204, 299]) {
    assert.deepEqual(await sendTo(t, (_, response) => response.writeHead(status).end()), { kind: 'sent' })
  }
})

test('every other status is retried, except 410', async (t) => {
  for (const status of [400, 401, 404, 500, 503]) {
    const sending = await sendTo(t, (_, response) => response.writeHead(status).end('what is wrong'))
    assert.deepEqual(sending, { kind: 'again', error: `It answered ${status}` })
  }
  const sending = await sendTo(t, (_, response) => response.writeHead(410).end())
  assert.deepEqual(sending, { kind: 'never', error: 'It answered 410' })
})

test('a Retry-After of a busy receiver is respected, in seconds or as a date', async (t) => {
  const after = async (status: number, value: string): Promise<number | undefined> => {
    const answer: Answer = (_, response) => response.writeHead(status, { 'retry-after': value }).end()
    const sending = await sendTo(t, answer)
    assert.equal(sending.kind, 'again')
    return sending.kind === 'again' ? sending.afterMs : undefined
  }
  assert.equal(await after(429, '120'), 120_000)
  assert.equal(await after(503, '0'), undefined)
  const dated = await after(503, new Date(Date.now() + 3_600_000).toUTCString())
  assert.ok(dated !== undefined && dated > 3_500_000 && dated <= 3_600_000, `${dated}`)
  for (const wrong of ['-5', 'soon', '1e9', new Date(0).toUTCString()]) assert.equal(await after(429, wrong), undefined)
  assert.equal(await after(500, '120'), undefined)
})

test('only the status of a response is kept, so that a callback cannot be used to read what a server returns', async (t) => {
  for (const status of [401, 404, 410, 500]) {
    const sending = await sendTo(t, (_, response) => response.writeHead(status, 'inner secret').end('inner secret'))
    assert.ok(sending.kind !== 'sent')
    assert.equal(sending.error, `It answered ${status}`)
  }
})

test('an endless response is not read to its end, and its status counts', async (t) => {
  const answers =
    (status: number): Answer =>
    (_, response) => {
      response.writeHead(status)
      const more = (): void =>
        void (response.writableEnded || response.write('x'.repeat(65_536), () => setImmediate(more)))
      response.on('error', () => {}).on('close', () => response.end())
      more()
    }
  assert.deepEqual(await sendTo(t, answers(200)), { kind: 'sent' })
  const sending = await sendTo(t, answers(500))
  assert.deepEqual(sending, { kind: 'again', error: 'It answered 500' })
})

test('a receiver that never answers takes at most the timeout of one attempt', async (t) => {
  const silent = await sendTo(t, () => {}, { timeoutMs: 100 })
  assert.deepEqual(silent, { kind: 'again', error: 'It took more than 100 ms.' })
  const stuck: Answer = (_, response) => response.writeHead(200).write('x')
  assert.deepEqual(await sendTo(t, stuck, { timeoutMs: 300 }), { kind: 'sent' })
})

test('an unreachable receiver is retried', async (t) => {
  const { origin, url, close } = await receiver(t)
  await close()
  const sending = await sender(t, [origin])(item(url), t.signal)
  assert.deepEqual(sending, { kind: 'again', error: `${origin} refused the connection.` })
})

test('a redirect is not followed, wherever it leads', async (t) => {
  const inner = await receiver(t)
  const outer = await receiver(t, (_, response) => response.writeHead(307, { location: inner.url }).end())
  // The list allows the redirect target, as the control shows.
  const send = sender(t, [inner.origin, outer.origin])
  const sending = await send(item(outer.url), t.signal)
  assert.deepEqual(sending, { kind: 'again', error: `${outer.origin} answered 307` })
  assert.equal(inner.received.length, 0)
  await send(item(inner.url), t.signal)
  assert.equal(inner.received.length, 1)
})

test('a private address is refused for good, whatever the egress rules of tools allow, unless callbackOrigins lists it', async (t) => {
  const { origin, url, received } = await receiver(t)
  const rules: EgressOptions[] = [
    {},
    { allow: [origin] },
    { allow: ['https://example.com'] },
    { allow: [{ origin, private: true }] },
  ]
  for (const given of rules) {
    for (const origins of [undefined, [], ['https://example.com'], [origin]]) {
      const send = sender(t, [], { egress: guard(t, given), origins: () => origins })
      const sending = await send(item(url), t.signal)
      assert.ok(sending.kind === 'never', sending.kind)
      assert.match(sending.error, /^A callback may not go to .*; add it to service\.callbackOrigins/)
    }
  }
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const named = url.replace('127.0.0.1', 'innocent.example.com')
  const allow = [{ origin: new URL(named).origin, private: true }]
  for (const egress of [guard(t, { lookup }), guard(t, { lookup, allow })]) {
    const send = sender(t, [], { egress, origins: () => undefined })
    assert.equal((await send(item(named), t.signal)).kind, 'never')
  }
  assert.equal(received.length, 0)
  assert.deepEqual(await sender(t, [origin], { egress: guard(t, { allow: [] }) })(item(url), t.signal), {
    kind: 'sent',
  })
  assert.equal(received.length, 1)
})

test('the list of callback origins is read at the moment of sending', async (t) => {
  const { origin, url } = await receiver(t)
  let listed: EgressAllow | undefined = []
  const send = sender(t, [], { origins: () => listed })
  assert.equal((await send(item(url), t.signal)).kind, 'never')
  listed = [{ origin, private: true }]
  assert.equal((await send(item(url), t.signal)).kind, 'sent')
})

test('without rules a callback may go to any public address', async (t) => {
  const events: string[] = []
  const egress = guard(t, {
    connectMs: 200,
    lookup: async () => [{ address: '203.0.113.1', family: 4 }],
    onEvent: ({ host, reason }) => events.push(`${host}: ${reason}`),
  })
  const send = sender(t, [], { egress, origins: () => undefined })
  await send(item('https://example.com/x'), t.signal)
  // The name was looked up, which happens only for allowed origins; the address of the test is a reserved one.
  assert.deepEqual(events, ['example.com: 203.0.113.1 is a private or reserved address'])
})

test('a result over the limit is left out, so that its receiver fetches it', async (t) => {
  const { origin, url, received } = await receiver(t)
  const views = knownOutcomes(someResult({ callId: 'c1', output: 'x'.repeat(5_000) }))
  assert.deepEqual(await sender(t, [origin], { views, bodyBytes: 1_000 })(item(url), t.signal), { kind: 'sent' })
  const [got] = received
  assert.ok(got !== undefined)
  assert.deepEqual(JSON.parse(got.body), { callId: 'c1', ...call })
  assert.equal(await verifyWebhook([testKey], got), 'valid')
})

test('a call that is no longer stored is never sent; one that cannot be read now is sent later', async (t) => {
  const { origin, url, received } = await receiver(t)
  const send = sender(t, [origin])
  const { call: _, ...gone } = item(url)
  assert.deepEqual(await send(gone, t.signal), { kind: 'never', error: 'The call is no longer stored.' })
  const sending = await send(item(url, { callId: 'unreadable' }), t.signal)
  assert.deepEqual(sending, { kind: 'again', error: 'The result of the call could not be read.' })
  const keyOf = () => Promise.reject(new Error('the key is hunter2'))
  const failed = await sender(t, [origin], { keyOf })(item(url), t.signal)
  assert.deepEqual(failed, { kind: 'again', error: 'The callback could not be sent.' })
  assert.equal((await send(item('https://user:pass@example.com'), t.signal)).kind, 'never')
  assert.equal(received.length, 0)
})

test('an aborted callback rejects with the reason', async (t) => {
  const controller = new AbortController()
  const { origin, url } = await receiver(t, () => controller.abort(new Error('stopping')))
  await assert.rejects(sender(t, [origin])(item(url), controller.signal), /stopping/)
})
