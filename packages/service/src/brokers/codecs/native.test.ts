import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
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
import { nativeCodec } from './native.ts'

const codec = nativeCodec({
  transport: 'kafka',
  defaultReplyTo: 'answers',
  deadLettersTo: 'dead',
  mayReplyTo: (to) => to.startsWith('replies.'),
})
const decode = (body: object, about = {}) => codec.decode(message(body, about))

test('the codec decodes every option of a call, and its reply address', () => {
  const asked = { idempotencyKey: 'k', priority: 3, timeoutMs: 500, delayMs: 10, schemaDigest: 'd', traceparent }
  const body = { tool: 'demo:echo', args: { text: 'hi' }, ...asked, deadline: '2030-01-31T12:00:00Z' }
  const decoded = decode({ ...body, correlationId: 'c1', replyTo: 'replies.me' })
  assert.deepEqual(called(decoded).input, { kind: 'call', ...body })
  assert.deepEqual(addressed(decoded), {
    codec: 'native',
    transport: 'kafka',
    to: 'replies.me',
    data: { correlationId: 'c1' },
  })
})

test('a message without a key gets its position as the key, hashed when it is long', () => {
  assert.equal(called(decode({ tool: 'a:b' })).input.idempotencyKey, 'topic/0/42')
  assert.equal(called(decode({ tool: 'a:b' })).input.idempotencyKey, 'topic/0/42')
  const [one, two] = ['1', '2'].map((position) => decode({ tool: 'a:b' }, { source: 'x'.repeat(249), position }))
  assert.match(String(one && called(one).input.idempotencyKey), /^[0-9a-f]{64}$/)
  assert.notEqual(one && called(one).input.idempotencyKey, two && called(two).input.idempotencyKey)
})

test('the codec decodes a message with steps as a chain', () => {
  const steps = [{ tool: 'a:b' }]
  assert.deepEqual(called(decode({ steps, input: null })).input, {
    kind: 'chain',
    args: { steps, input: null },
    idempotencyKey: 'topic/0/42',
  })
  assert.deepEqual(called(decode({ kind: 'chain', steps })).input.args, { steps })
  assert.match(refused(decode({ kind: 'chain', tool: 'a:b' })).error.message, /\/tool is not known.*\/steps is missing/)
  assert.match(refused(decode({ kind: 'call', tool: 'a:b', steps })).error.message, /\/steps is not known/)
  assert.match(refused(decode({ kind: 'batch', tool: 'a:b' })).error.message, /\/kind must be "call" or "chain"/)
})

test('the trace context comes from the body, else from the header, and only in the W3C format', () => {
  const header = (value: string) => ({ headers: new Map([['traceparent', Buffer.from(value)]]) })
  assert.equal(called(decode({ tool: 'a:b' }, header(traceparent))).input.traceparent, traceparent)
  const other = traceparent.replace('0af7', 'ffff')
  assert.equal(called(decode({ tool: 'a:b', traceparent }, header(other))).input.traceparent, traceparent)
  assert.equal(called(decode({ tool: 'a:b' }, header('nonsense'))).input.traceparent, undefined)
  for (const hostile of ['x', 7, null, { traceparent }, traceparent.toUpperCase(), `ff${traceparent.slice(2)}`]) {
    assert.equal(called(decode({ tool: 'a:b', traceparent: hostile })).input.traceparent, undefined)
  }
})

test('the codec refuses unknown members with their path and the nearest known name', () => {
  const { error, address } = refused(decode({ tool: 'a:b', arguments: {}, idempotencykey: 'k', correlationId: 'c' }))
  assert.equal(error.code, 'PAYLOAD_INVALID')
  assert.deepEqual(
    error.details?.issues?.map(({ path }) => path),
    ['/arguments', '/idempotencykey'],
  )
  assert.match(error.message, /did you mean "idempotencyKey"/)
  assert.deepEqual(address?.data, { correlationId: 'c' })
})

test('the codec names every member of a wrong type', () => {
  const wrong = { tool: 1, args: [], idempotencyKey: 7, correlationId: {}, priority: '1', timeoutMs: null, deadline: 0 }
  const paths = refused(decode(wrong)).error.details?.issues?.map(({ path }) => path)
  assert.deepEqual(
    paths?.toSorted(),
    Object.keys(wrong)
      .map((name) => `/${name}`)
      .toSorted(),
  )
})

test('the codec refuses an identity in the message as an unknown member', () => {
  for (const name of ['identity', 'tenant', 'roles', 'principal']) {
    assert.match(refused(decode({ tool: 'a:b', [name]: 'admin' })).error.message, /is not known here/)
  }
  assert.match(refused(decode({ tool: 'a:b', callback: 'http://169.254.169.254/' })).error.message, /\/callback is not/)
})

test('the codec accepts only allowed reply addresses, and neither answers nor repeats another one', () => {
  for (const replyTo of ['jobs', 'dead', '', 7, 'x'.repeat(201)]) {
    const { error, address } = refused(decode({ tool: 'a:b', replyTo }))
    assert.equal(address, undefined)
    assert.ok(!error.message.includes('jobs'))
  }
  assert.equal(refused(decode({ tool: 'a:b', replyTo: 'jobs' })).error.code, 'DENIED')
  assert.equal(addressed(decode({ tool: 'a:b' })).to, 'answers')
  const silent = nativeCodec({ transport: 'redis', mayReplyTo: () => false, deadLettersTo: 'dead' })
  assert.equal(called(silent.decode(message({ tool: 'a:b' }))).address, undefined)
})

test('the codec refuses a message over a limit, with the reply address when it can be read', () => {
  const deep = `{"tool":"a:b","correlationId":"c","args":{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`
  const tooDeep = refused(codec.decode(message(deep)))
  assert.match(tooDeep.error.message, /deeper than 64/)
  assert.deepEqual(tooDeep.address?.data, { correlationId: 'c' })
  const wide = refused(decode({ tool: 'a:b', args: { list: Array(10_001).fill(0) } }))
  assert.match(wide.error.message, /more than 10000 members/)
  const many = refused(decode(Object.fromEntries(Array.from({ length: 9_000 }, (_, index) => [`toll${index}`, 0]))))
  assert.ok((many.error.details?.issues?.length ?? 0) <= 20)
  const large = refused(decode({ tool: 'a:b', args: { text: 'x'.repeat(1_048_576) } }))
  assert.equal(large.error.code, 'PAYLOAD_TOO_LARGE')
  assert.equal(large.address?.to, 'answers')
  for (const text of [
    '{"tool":"a:b","tool":"c:d"}',
    '{"tool":"a:b","args":{"__proto__":{}}}',
    '{"tool":"a:b","args":{"n":9007199254740993}}',
    '[]',
    'null',
    '{',
    '',
  ]) {
    assert.equal(refused(codec.decode(message(text))).error.code, 'PAYLOAD_INVALID', text)
  }
  assert.equal(refused(codec.decode(message(Buffer.from([0x7b, 0xff, 0x7d])))).error.code, 'PAYLOAD_INVALID')
})

test('the reply to a call has golden bytes, the same every time', () => {
  const address = addressed(decode({ tool: 'demo:echo', correlationId: 'c1', replyTo: 'replies.me' }))
  const reply: Reply = { kind: 'ended', result: result(), files: [] }
  const sent = codec.reply(address, reply, now)
  assert.equal(sent.to, 'replies.me')
  assert.equal(sent.key, 'c1')
  assert.equal(
    Buffer.from(sent.bytes).toString(),
    '{"correlationId":"c1","callId":"call_1","result":{"callId":"call_1","tool":{"id":"demo:echo","version":"1.0.0"},' +
      '"status":"ok","output":{"text":"hi"},"content":[],"warnings":[],"artifacts":[],"effects":[],' +
      '"usage":{"wallMs":12,"enforced":{}},"attempts":1,"startedAt":"2030-01-31T12:00:00.000Z","durationMs":1250}}',
  )
  assert.deepEqual(codec.reply(address, reply, new Date(0)), sent)
})

test('a failure is sent in its result, a refusal as an error without its cause', () => {
  const address = addressed(decode({ tool: 'demo:echo' }))
  const ended = json(codec.reply(address, { kind: 'ended', result: failed('TIMEOUT'), files: [] }, now).bytes)
  assert.equal((ended.result as { status: string }).status, 'timeout')
  const details = { issues: [{ path: '/a', message: 'is wrong' }], when: new Date(0), self: {} }
  details.self = details
  const error = new ToolError('RATE_LIMITED', 'Later.', { cause: new Error('internal-secret'), details })
  const bytes = codec.reply(address, { kind: 'refused', error }, now).bytes
  assert.deepEqual(json(bytes), {
    error: { code: 'RATE_LIMITED', message: 'Later.', stage: 'execute', retryable: true, effect: 'none', details: {} },
  })
  assert.ok(!Buffer.from(bytes).includes('internal-secret'))
})

test('a message of a tool goes to the reply address', () => {
  const address = addressed(decode({ tool: 'demo:echo', correlationId: 'c1', replyTo: 'replies.me' }))
  const sent = codec.send?.(address, { callId: 'call_1', number: 2, message: { text: 'half' } }, now)
  assert.equal(sent?.to, 'replies.me')
  assert.deepEqual(json(sent?.bytes ?? Buffer.of()), {
    correlationId: 'c1',
    callId: 'call_1',
    number: 2,
    message: { text: 'half' },
  })
})

test('a dead letter keeps the message as text, or in base64 when it is not text', () => {
  const error = new ToolError('PAYLOAD_INVALID', 'No.')
  const deadLetter = (bytes: Uint8Array) => codec.deadLetter?.(message(bytes), { error, deliveries: 3 }, now)
  assert.equal(deadLetter(Buffer.from('{'))?.to, 'dead')
  const text = json(deadLetter(Buffer.from('{'))?.bytes ?? Buffer.of())
  assert.deepEqual([text.source, text.position, text.deliveries, text.message], ['topic', '0/42', 3, '{'])
  assert.equal(json(deadLetter(Buffer.of(255))?.bytes ?? Buffer.of()).base64, '/w==')
  assert.ok((deadLetter(Buffer.alloc(5_000_000, 'x'))?.bytes.length ?? Infinity) < 1_048_576)
})

test('line separators in names stay data, and never appear in an error message', () => {
  const decoded = decode({ tool: hostile, correlationId: hostile, replyTo: 'replies.me' })
  const { bytes } = codec.reply(addressed(decoded), { kind: 'ended', result: result(), files: [] }, now)
  assert.equal(json(bytes).correlationId, hostile)
  const { error } = refused(decode({ tool: 'a:b', [hostile]: 1, args: {} }))
  const nested = refused(codec.decode(message(`{"tool":"a:b","args":{${JSON.stringify(hostile)}:1e999}}`))).error
  for (const text of [error.message, nested.message, JSON.stringify([error.details, nested.details])]) {
    assert.doesNotMatch(text, /[\p{Cc}\u2028\u2029]/u)
    assert.ok(!text.includes('\\u001b'), text)
  }
})

test('the codec decodes or refuses any bytes, and never throws', () => {
  const names = fc.constantFrom(
    'tool',
    'args',
    'steps',
    'kind',
    'replyTo',
    'correlationId',
    'priority',
    '__proto__',
    'x',
  )
  const objects = fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })).map((value) => Buffer.from(JSON.stringify(value)))
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 80 }),
    fc.string().map((text) => Buffer.from(text)),
    objects,
  )
  fc.assert(
    fc.property(bytes, fc.uint8Array({ maxLength: 80 }), (body, header) => {
      const asked = message(body, { headers: new Map([['traceparent', header]]) })
      const decoded = codec.decode(asked)
      if (decoded.kind === 'call') assert.equal(typeof decoded.input.idempotencyKey, 'string')
      else assert.ok(decoded.error.message.length < 3_000)
      if (decoded.address !== undefined)
        codec.reply(decoded.address, { kind: 'ended', result: result(), files: [] }, now)
      codec.deadLetter?.(asked, { error: new ToolError('INTERNAL', 'x'), deliveries: 1 }, now)
      codec.speaks(asked)
    }),
    { numRuns: 2_000 },
  )
})
