import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import {
  addressed,
  called,
  failed,
  hostile,
  json,
  message,
  now,
  refused,
  result,
  traceparent,
} from './codec.fixture.ts'
import type { Reply } from './codec.ts'
import { somastackCodec } from './somastack.ts'

const codec = somastackCodec()
const request = {
  event_id: '0b5d9c1e-1111-4222-8333-444455556666',
  session_id: 'session-1',
  persona_id: 'persona-1',
  tool_name: 'demo:echo',
  args: { text: 'hi' },
  metadata: { request_id: 'r1', source: 'tool_orchestrator' },
  trace_context: { traceparent, tracestate: 'a=b' },
}
const decode = (body: object) => codec.decode(message(body))
const answer = (reply: Reply, body: object = request) => codec.reply(addressed(decode(body)), reply, now)
const ended = (more = {}): Reply => ({ kind: 'ended', result: result(more), files: [] })

test('a tool_request is a call, with its session and event as the idempotency key', () => {
  const { input, session } = called(decode(request))
  assert.deepEqual(input, {
    ...{
      kind: 'call',
      tool: 'demo:echo',
      args: { text: 'hi' },
      idempotencyKey: `${request.session_id}/${request.event_id}`,
      traceparent,
    },
  })
  assert.equal(session, undefined)
})

test('a member that is absent or null is ignored', () => {
  const { persona_id: _persona, trace_context: _trace, ...least } = request
  assert.equal(called(decode(least)).input.tool, 'demo:echo')
  assert.equal(called(decode({ ...request, persona_id: null, trace_context: null })).input.traceparent, undefined)
  assert.equal(called(decode({ ...request, trace_context: { traceparent: 'no' } })).input.traceparent, undefined)
})

test('the codec translates the tool names of the gateway in both directions', () => {
  const named = somastackCodec({ toolName: (id) => id.replace('soma:', '') })
  const decoded = named.decode(message({ ...request, tool_name: 'echo' }))
  assert.equal(called(decoded).input.tool, 'echo')
  const reply = ended({ effects: [{ kind: 'tool', tool: 'soma:more' }] })
  const event = json(named.reply(addressed(decoded), reply, now).bytes)
  assert.equal(event.tool_name, 'echo')
  assert.deepEqual((event.metadata as { writeback: object }).writeback, {
    sent_files: [],
    injected_tools: ['more'],
    sent_rich_messages: [],
  })
})

test('a tool_result has golden bytes and headers, the same but for the time', () => {
  const sent = answer(ended())
  assert.equal(sent.to, 'somastack.tool_results')
  assert.equal(sent.key, 'session-1')
  assert.equal(
    Buffer.from(sent.bytes).toString(),
    '{"event_id":"6b356de3-67b2-81ab-8146-7d886ddbefd8","session_id":"session-1","persona_id":"persona-1",' +
      '"tool_name":"demo:echo","status":"success","payload":{"text":"hi"},' +
      '"metadata":{"request_id":"r1","source":"tool_orchestrator"},"execution_time":1.25,' +
      `"trace_context":{"traceparent":"${traceparent}","tracestate":"a=b"}}`,
  )
  assert.deepEqual(sent.headers, {
    tenant_id: '',
    session_id: 'session-1',
    persona_id: 'persona-1',
    event_type: 'tool_result',
    event_id: '6b356de3-67b2-81ab-8146-7d886ddbefd8',
    schema: 'tool_result',
    correlation_id: request.event_id,
    timestamp_ms: '1896091200250',
  })
  assert.deepEqual(codec.reply(addressed(decode(request)), ended(), new Date(0)).bytes, sent.bytes)
})

test('results of different calls and requests have different ids, each a UUID', () => {
  const ids = [
    answer(ended()),
    answer(ended({ callId: 'call_2' })),
    answer(ended(), { ...request, event_id: 'other' }),
    answer({ kind: 'refused', error: new ToolError('DENIED', 'No.') }),
    answer({ kind: 'refused', error: new ToolError('CATALOG_STALE', 'No.') }),
  ].map(({ bytes }) => String(json(bytes).event_id))
  assert.equal(new Set(ids).size, ids.length)
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('every outcome maps to one of the five statuses of the gateway', () => {
  const words: { readonly [status: string]: string } = { denied: 'blocked', timeout: 'timeout' }
  for (const code of Object.keys(codes) as ErrorCode[]) {
    const word = code === 'CIRCUIT_OPEN' ? 'circuit_open' : (words[codes[code].status] ?? 'error')
    const whole = json(answer({ kind: 'ended', result: failed(code), files: [] }).bytes)
    assert.equal(whole.status, word, code)
    const error = { code, message: 'It did not work.', retryable: codes[code].retryable, effect: codes[code].effect }
    assert.deepEqual(whole.payload, { error })
    const refusal = json(answer({ kind: 'refused', error: new ToolError(code, 'It did not work.') }).bytes)
    assert.deepEqual([refusal.status, refusal.payload, refusal.execution_time], [word, { error }, 0])
  }
  assert.equal(json(answer(ended()).bytes).status, 'success')
})

test('the payload is always an object, as the gateway’s schema requires', () => {
  assert.deepEqual(json(answer(ended({ output: 'text' })).bytes).payload, { result: 'text' })
  assert.deepEqual(json(answer(ended({ output: null })).bytes).payload, { result: null })
  assert.deepEqual(json(answer(ended({ output: [1] })).bytes).payload, { result: [1] })
})

test('effects are in the metadata, files by their artifact', () => {
  const file = { name: 'a.txt', mimeType: 'text/plain', bytes: 2, digest: 'sha256:x', artifact: 'art_1' }
  const effects = [
    { kind: 'message' as const, message: { text: 'x' } },
    { kind: 'tool' as const, tool: 'a:b' },
  ]
  const reply: Reply = { kind: 'ended', result: result({ effects }), files: [{ ...file, content: Buffer.from('hi') }] }
  assert.deepEqual((json(answer(reply).bytes).metadata as { writeback: object }).writeback, {
    sent_files: [{ filename: 'a.txt', mime_type: 'text/plain', artifact: 'art_1', bytes: 2, digest: 'sha256:x' }],
    injected_tools: ['a:b'],
    sent_rich_messages: [{ text: 'x' }],
  })
})

test('the codec ignores the tenant, roles and overrides of a message and does not repeat them', () => {
  const forged = { tenant: 'victim', tenant_id: 'victim', requeue_override: true, writeback: { sent_files: ['x'] } }
  const metadata = { ...forged, roles: ['admin'], identity: { principal: 'root' }, request_id: 'r1' }
  const headers = new Map([['tenant_id', Buffer.from('victim')]])
  const decoded = codec.decode(message({ ...request, metadata }, { headers }))
  assert.deepEqual(called(decoded).input, called(decode(request)).input)
  const owned = somastackCodec({ tenant: 'acme' }).reply(addressed(decoded), ended(), now)
  assert.equal(owned.headers?.tenant_id, 'acme')
  const echoed = json(owned.bytes).metadata as Record<string, unknown>
  assert.deepEqual([echoed.tenant, echoed.tenant_id, echoed.requeue_override], ['acme', undefined, undefined])
  assert.equal(echoed.writeback, undefined)
  assert.ok(!JSON.stringify(json(answer(ended(), { ...request, metadata }).bytes)).includes('victim'))
})

test('an invalid request gets an error that names each member, when its session can be read', () => {
  const { error, address } = refused(decode({ event_id: 'e', session_id: 's', args: 'x', metadata: 7, tool_name: '' }))
  assert.deepEqual(error.details?.issues?.map(({ path }) => path).toSorted(), ['/args', '/metadata', '/tool_name'])
  const event = json(codec.reply(address ?? assert.fail(), { kind: 'refused', error }, now).bytes)
  assert.deepEqual([event.session_id, event.tool_name, event.status], ['s', '', 'error'])
  assert.deepEqual(event.metadata, { request_id: 'e' })
  assert.equal(refused(decode({ tool_name: 'x' })).address, undefined)
  assert.equal(refused(decode({ ...request, event_id: 'x'.repeat(201) })).address?.data.session_id, 'session-1')
  const lossy = JSON.stringify(request).replace('"hi"', '9007199254740993')
  assert.equal(refused(codec.decode(message(lossy))).address?.data.event_id, request.event_id)
})

test('the codec bounds the members that it echoes', () => {
  const long = { request_id: 'r1', text: 'x'.repeat(10_000) }
  assert.deepEqual(addressed(decode({ ...request, metadata: long })).data.metadata, { request_id: 'r1' })
  const deep = `{"request_id":"r1","x":${'['.repeat(50_000)}${']'.repeat(50_000)}}`
  const text = JSON.stringify({ ...request, metadata: 0 }).replace('"metadata":0', `"metadata":${deep}`)
  const decoded = refused(codec.decode(message(text)))
  assert.deepEqual(decoded.address?.data.metadata, { request_id: 'r1' })
  const traces = { traceparent, tracestate: 'x'.repeat(600), baggage: 'b', other: 1 }
  assert.deepEqual(addressed(decode({ ...request, trace_context: traces })).data.trace_context, { traceparent })
})

test('a message of a tool is an event of the conversation with its own id', () => {
  const sent = codec.send?.(addressed(decode(request)), { callId: 'call_1', number: 2, message: { text: 'x' } }, now)
  assert.equal(sent?.to, 'conversation.outbound')
  const { event_id, ...event } = json(sent?.bytes ?? Buffer.of())
  assert.deepEqual(event, {
    session_id: 'session-1',
    persona_id: 'persona-1',
    role: 'tool',
    message: '{"text":"x"}',
    metadata: {
      request_id: request.event_id,
      source: 'tool_executor',
      status: 'running',
      tool_name: 'demo:echo',
      call_id: 'call_1',
      number: 2,
    },
    version: 'sa01-v1',
    type: 'tool.message',
  })
  assert.equal(sent?.headers?.event_id, event_id)
  assert.deepEqual([sent?.headers?.schema, sent?.headers?.event_type], ['sa01-v1', 'tool.message'])
  const again = codec.send?.(addressed(decode(request)), { callId: 'call_1', number: 2, message: 'y' }, now)
  assert.equal(json(again?.bytes ?? Buffer.of()).event_id, event_id)
  const next = codec.send?.(addressed(decode(request)), { callId: 'call_1', number: 3, message: 'y' }, now)
  assert.notEqual(json(next?.bytes ?? Buffer.of()).event_id, event_id)
})

test('a dead letter holds the event, the error and the number of retries', () => {
  const error = new ToolError('PAYLOAD_INVALID', 'No.')
  const deadLetter = codec.deadLetter?.(message(request), { error, deliveries: 3 }, now)
  assert.equal(deadLetter?.to, 'somastack.tools.dlq')
  const value = json(deadLetter?.bytes ?? Buffer.of())
  assert.deepEqual(value.original_event, request)
  assert.deepEqual([value.retry_count, value.error_type, value.timestamp], [2, 'PAYLOAD_INVALID', 1_896_091_200.25])
  const spoilt = codec.deadLetter?.(message(Buffer.from('{"a"')), { error, deliveries: 0 }, now)
  assert.equal(json(spoilt?.bytes ?? Buffer.of()).original_event, Buffer.from('{"a"').toString('base64'))
  const huge = codec.deadLetter?.(message(Buffer.alloc(5_000_000, 'x')), { error, deliveries: 1 }, now)
  assert.ok((huge?.bytes.length ?? Infinity) < 1_000_000)
})

test('line separators in names stay data', () => {
  const body = { ...request, session_id: hostile, persona_id: hostile, tool_name: hostile }
  const sent = answer(ended(), body)
  const event = json(sent.bytes)
  assert.deepEqual([event.session_id, event.persona_id, event.tool_name], [hostile, hostile, hostile])
  for (const raw of ['\r', '\n', '\u001b']) assert.ok(!Buffer.from(sent.bytes).includes(raw))
})

test('the codec decodes or refuses any bytes, never throws, and sends a bounded reply to a known sender', () => {
  const names = fc.constantFrom(...Object.keys(request), '__proto__', 'x')
  const values = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constant('text'), fc.constant({ request_id: 'r' }))
  const objects = fc.dictionary(names, values, { minKeys: 3 }).map((value) => Buffer.from(JSON.stringify(value)))
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 80 }), objects), (bytes) => {
      const decoded = codec.decode(message(bytes))
      const error = new ToolError('INTERNAL', 'x')
      codec.deadLetter?.(message(bytes), { error, deliveries: 1 }, now)
      if (decoded.address === undefined) return
      const event = json(codec.reply(decoded.address, { kind: 'refused', error }, now).bytes)
      const types = [event.event_id, event.session_id, event.tool_name, event.status].map((value) => typeof value)
      assert.deepEqual(types, ['string', 'string', 'string', 'string'])
      assert.ok(JSON.stringify(decoded.address).length < 12_000)
    }),
    { numRuns: 2_000 },
  )
})
