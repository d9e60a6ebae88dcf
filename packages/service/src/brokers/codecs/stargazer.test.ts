import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codes, type ErrorCode, ToolError } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { encode as pack, decode as unpack } from '@msgpack/msgpack'
import fc from 'fast-check'
import { addressed, called, failed, hostile, message, now, refused, result } from './codec.fixture.ts'
import type { Reply } from './codec.ts'
import { stargazerCodec, stargazerReplyRule } from './stargazer.ts'

const reserved = ['sg:stream:tools', 'sg:stream:dlq', 'sg:stream:outbound', 'sg:stream:replies-of-none']
const options = { mayReplyTo: stargazerReplyRule(reserved), messagesTo: 'sg:stream:outbound' }
const codec = stargazerCodec(options)
const envelope = {
  correlation_id: 'c1',
  reply_to: 'sg:stream:tools:replies:worker-1',
  idem_key: 'idem-1',
  schema_hash: 'hash-1',
  tool_name: 'demo:echo',
  tool_args: { text: 'hi' },
  ctx: { trace_id: 'trace-1', platform: 'discord', channel_id: '1', user_name: 'me', disclosed_skill_ids: [] },
}
const place = { source: 'sg:stream:tools', position: '1700000000000-0' }
const decode = (body: object) => codec.decode(message(pack(body), place))
const answer = (reply: Reply) => codec.reply(addressed(decode(envelope)), reply, now)
const ended = (more = {}): Reply => ({ kind: 'ended', result: result(more), files: [] })

test('an envelope is a call of the session that it names, with the catalog hash of its sender', () => {
  const { input, session, catalogHash, address } = called(decode(envelope))
  assert.deepEqual(input, {
    kind: 'call',
    tool: 'demo:echo',
    args: { text: 'hi' },
    idempotencyKey: 'idem-1',
    origin: { user_name: 'me', disclosed_skill_ids: [] },
  })
  assert.deepEqual([session, catalogHash], ['trace-1', 'hash-1'])
  assert.deepEqual(address, {
    codec: 'stargazer',
    transport: 'redis',
    to: 'sg:stream:tools:replies:worker-1',
    data: { correlation_id: 'c1', trace_id: 'trace-1', tool_name: 'demo:echo' },
  })
})

test('the context of an envelope reaches the tool as bounded data, and grants nothing', () => {
  const originOf = (ctx: object) => called(decode({ ...envelope, ctx: { trace_id: 'trace-1', ...ctx } })).input.origin
  const said = {
    user_name: 'Ada',
    message_id: '77',
    observability_request_id: 'obs-1',
    disclosed_skill_ids: ['a', 'b'],
    room_context: { topic: 'x', members: [1, 2] },
  }
  assert.deepEqual(originOf({ ...said, user_id: 'root', guild_id: 'g', channel_id: 'c', tenant: 't' }), said)
  assert.deepEqual(originOf({ user_name: '', room_context: null }), undefined)
  const wrong = { user_name: { toString: 'x' }, disclosed_skill_ids: 'all', message_id: 9 }
  assert.deepEqual(originOf(wrong), { message_id: 9, omitted: ['user_name', 'disclosed_skill_ids'] })
  const large = { room_context: 'x'.repeat(20_000), user_name: 'Ada' }
  assert.deepEqual(originOf(large), { user_name: 'Ada', omitted: ['room_context'] })
})

test('binary arguments become base64 text with their paths for the schema check; binary data elsewhere is refused', () => {
  const bytes = Buffer.from([0, 255, 1])
  const { input, binary } = called(decode({ ...envelope, tool_args: { image: bytes, list: ['x', bytes] } }))
  assert.deepEqual(input.args, { image: 'AP8B', list: ['x', 'AP8B'] })
  assert.deepEqual(binary, ['/image', '/list/1'])
  for (const wrong of [{ tool_args: bytes }, { ctx: { trace_id: 'trace-1', room_context: bytes } }, { extra: bytes }]) {
    assert.match(
      refused(decode({ ...envelope, ...wrong })).error.message,
      /\/(tool_args|ctx\/room_context|extra) is binary/,
    )
  }
  const many = { tool_args: { list: Array.from({ length: 101 }, () => bytes) } }
  assert.match(refused(decode({ ...envelope, ...many })).error.message, /\/tool_args\/list\/100 .*more than 100/)
})

test('the gateway gets the class of an exception, and its text only when the settings allow it', () => {
  const thrown = (name: string) => {
    const cause = { name, message: 'psql://secret-host' }
    const { error } = failed('BACKEND_FAILED', 'psql://secret-host')
    const reply: Reply = {
      kind: 'ended',
      files: [],
      result: result({ status: 'failed', output: null, error: { ...(error ?? assert.fail()), cause } }),
    }
    return { plain: unpack(answer(reply).bytes), reply }
  }
  const { plain, reply } = thrown('ConnectionError')
  const text = "Tool 'demo:echo' raised ConnectionError on the tools service."
  assert.deepEqual(plain, { correlation_id: 'c1', error: text, code: 'BACKEND_FAILED' })
  assert.match((thrown('secret text, not a name').plain as { error: string }).error, /raised Error on/)
  const open = stargazerCodec({ ...options, errorText: true })
  const full = unpack(open.reply(addressed(decode(envelope)), reply, now).bytes) as { error: string }
  assert.equal(full.error, 'psql://secret-host')
})

test('the idempotency key is that of the sender, else its correlation id, else the position of the entry', () => {
  const keyOf = (more: object) => called(decode({ ...envelope, ...more })).input.idempotencyKey
  assert.equal(keyOf({ idem_key: '' }), 'c1')
  assert.equal(keyOf({ idem_key: null, correlation_id: null }), 'sg:stream:tools/1700000000000-0')
  assert.equal(called(decode({ ...envelope, schema_hash: null })).catalogHash, '')
  assert.deepEqual(called(decode({ ...envelope, tool_args: null })).input.args, {})
})

test('an envelope without a session is refused, and its sender gets the error', () => {
  for (const ctx of [undefined, null, {}, { trace_id: '' }, { trace_id: 7 }, { user_id: 'root' }]) {
    const { error, address } = refused(decode({ ...envelope, ctx }))
    assert.equal(error.code, 'UNAUTHENTICATED')
    assert.equal(address?.data.correlation_id, 'c1')
  }
})

test('the identity does not come from the envelope', () => {
  const forged = { user_id: 'root', guild_id: 'g', platform: 'x', tenant: 'victim', roles: ['admin'] }
  const decoded = decode({ ...envelope, ...forged, identity: forged, ctx: { ...envelope.ctx, ...forged } })
  assert.deepEqual(called(decoded), called(decode(envelope)))
})

test('an invalid envelope gets an error that names every failing member', () => {
  const wrong = { ...envelope, tool_name: 7, tool_args: [], schema_hash: 'x'.repeat(201) }
  const { error, address } = refused(decode(wrong))
  assert.deepEqual(error.details?.issues?.map(({ path }) => path).toSorted(), [
    '/schema_hash',
    '/tool_args',
    '/tool_name',
  ])
  assert.equal(address?.to, envelope.reply_to)
  const lossy = refused(decode({ ...envelope, tool_args: { id: Number.NaN } }))
  assert.match(lossy.error.message, /\/tool_args\/id/)
  assert.equal(lossy.address?.data.correlation_id, 'c1', 'its sender stood before the fault')
})

test('replies go only to reply streams, and any other stream gets none and is not repeated', () => {
  const may = stargazerReplyRule(reserved)
  for (const to of ['sg:stream:tools:replies:worker-1', 'sg:reply:{w1}', 'sg:tools:reply:inference-ab12']) {
    assert.ok(may(to), to)
  }
  const foreign = [
    ...reserved,
    'sg:stream:inbound',
    'replies',
    'other:replies',
    'sg:',
    'sg:repl*',
    'sg:repl?',
    'sg:repl[a]',
    'sg:repl\\',
    'sg:repl y',
    'sg:repl\n',
    'sg:replü',
    `sg:repl${'x'.repeat(200)}`,
    'sg:tools:session:repl-1',
    'sg:tools:catalog:repl',
    'sg:pubsub:replies',
  ]
  for (const reply_to of foreign) {
    assert.ok(!may(reply_to), reply_to)
    const { error, address } = refused(decode({ ...envelope, reply_to }))
    assert.equal(address, undefined, reply_to)
    assert.ok(error.code === 'DENIED' || error.code === 'PAYLOAD_INVALID', error.code)
    assert.ok(reply_to.length < 8 || !error.message.includes(reply_to), error.message)
  }
  const open = stargazerCodec({ mayReplyTo: () => true })
  const control = open.decode(message(pack({ ...envelope, reply_to: 'sg:stream:tools' })))
  assert.equal(control.address?.to, 'sg:stream:tools', 'without the rule it would go there')
})

test('an envelope without a reply address is a call without a reply', () => {
  for (const reply_to of [undefined, null, '']) {
    assert.equal(called(decode({ ...envelope, reply_to })).address, undefined)
  }
})

test('the reply has golden bytes, the same every time', () => {
  const sent = answer(ended({ output: 'hi' }))
  assert.equal(sent.to, 'sg:stream:tools:replies:worker-1')
  assert.equal(
    Buffer.from(sent.bytes).toString('hex'),
    '83ae636f7272656c6174696f6e5f6964a26331a6726573756c74a26869a9777269746562' +
      '61636b83aa73656e745f66696c657390ae696e6a65637465645f746f6f6c7390b273656e' +
      '745f726963685f6d6573736167657390',
  )
  assert.deepEqual(codec.reply(addressed(decode(envelope)), ended({ output: 'hi' }), new Date(0)), sent)
})

test('the result is always a text', () => {
  const resultOf = (output: unknown) => (unpack(answer(ended({ output })).bytes) as { result: string }).result
  assert.equal(resultOf('plain'), 'plain')
  assert.equal(resultOf({ a: [1, null] }), '{"a":[1,null]}')
  assert.equal(resultOf(null), 'null')
  assert.equal(resultOf('half \ud800'), 'half \ufffd')
})

test('JSON that a tool returned as text is sent as that text, and an output in addition to the text as its own JSON', async (t) => {
  const sent = (more: object) => (unpack(answer(ended(more)).bytes) as { result: string }).result
  const text = '{ "n": 12345678901234567890, "z": 1.0 }'
  const about = { namespace: 'demo', name: 'text', description: 'Text.', inputSchema: { type: 'object' } } as const
  const executor = createExecutor({ tools: [defineTool({ ...about, effect: 'read', run: () => text })] })
  t.after(() => executor.close())
  const { output, content } = await executor.run('demo:text')
  assert.notEqual(output, text)
  assert.equal(sent({ output, content }), text)
  assert.equal(sent(JSON.parse(JSON.stringify({ output, content }))), text, 'from the record')
  const block = (said: string) => ({ type: 'text', text: said })
  assert.equal(sent({ output: { a: '[redacted]' }, content: [block('{ "a": "\\u0078" }')] }), '{"a":"[redacted]"}')
  assert.equal(sent({ output: { a: 1 }, content: [block('It is 1.')] }), '{"a":1}')
  assert.equal(sent({ output: { a: 1 }, content: [block('{ "a": 1 }'), block('more')] }), '{"a":1}')
  assert.equal(sent({ output: { a: 1 }, content: [block('['.repeat(200_000))] }), '{"a":1}')
})

test('effects have the shape of the gateway: small files inline, large ones by their artifact', () => {
  const about = { name: 'a.png', mimeType: 'image/png', digest: 'sha256:x', artifact: 'art_1' }
  const files = [
    { ...about, bytes: 2, content: Buffer.from([1, 2]) },
    { ...about, name: 'b.png', bytes: 9_000_000 },
  ]
  const effects = [
    { kind: 'tool' as const, tool: 'demo:more' },
    { kind: 'message' as const, message: { embed: 1 } },
  ]
  const named = stargazerCodec({ ...options, toolName: (id) => id.replace(':', '__') })
  const sent = named.reply(addressed(decode(envelope)), { kind: 'ended', result: result({ effects }), files }, now)
  assert.deepEqual((unpack(sent.bytes) as { writeback: object }).writeback, {
    sent_files: [
      { filename: 'a.png', mime_type: 'image/png', data: new Uint8Array([1, 2]) },
      { filename: 'b.png', mime_type: 'image/png', artifact: 'art_1', bytes: 9_000_000, digest: 'sha256:x' },
    ],
    injected_tools: ['demo__more'],
    sent_rich_messages: [{ embed: 1 }],
  })
})

test('every failure is an error with its code and without its cause; a stale catalog is a status', () => {
  for (const code of Object.keys(codes) as ErrorCode[]) {
    const error = new ToolError(code, 'It did not work.', { cause: new Error('internal-secret') })
    const replies = [answer({ kind: 'ended', result: failed(code), files: [] }), answer({ kind: 'refused', error })]
    const stale = { correlation_id: 'c1', status: 'CATALOG_STALE' }
    const raised = "Tool 'demo:echo' raised Error on the tools service."
    const text = code === 'BACKEND_FAILED' ? raised : 'It did not work.'
    const expected = code === 'CATALOG_STALE' ? stale : { correlation_id: 'c1', error: text, code }
    for (const { bytes } of replies) assert.deepEqual(unpack(bytes), expected)
  }
})

test('a message of a tool goes to the stream for messages, when one is configured', () => {
  const sent = { callId: 'call_1', number: 3, message: { text: 'x' } }
  const outgoing = codec.send?.(addressed(decode(envelope)), sent, now)
  assert.equal(outgoing?.to, 'sg:stream:outbound')
  assert.deepEqual(unpack(outgoing?.bytes ?? Buffer.of()), {
    correlation_id: 'c1',
    trace_id: 'trace-1',
    type: 'rich_message',
    number: 3,
    message: { text: 'x' },
  })
  const silent = stargazerCodec({ mayReplyTo: options.mayReplyTo })
  assert.equal(silent.send?.(addressed(decode(envelope)), sent, now), undefined)
})

test('a dead letter is one map with the fields that the gateway expects', () => {
  const error = new ToolError('PAYLOAD_INVALID', 'No.')
  const bytes = pack(envelope)
  const deadLetter = codec.deadLetter?.(message(bytes, place), { error, deliveries: 3 }, now)
  assert.equal(deadLetter?.to, 'sg:stream:dlq')
  assert.deepEqual(unpack(deadLetter?.bytes ?? Buffer.of()), {
    ...{
      original_stream: 'sg:stream:tools',
      original_msg_id: '1700000000000-0',
      error: 'No.',
      attempt: 3,
      data: bytes,
    },
    ts: 1_896_091_200.25,
    trace_id: 'trace-1',
  })
  const huge = codec.deadLetter?.(message(Buffer.alloc(5_000_000)), { error, deliveries: 1 }, now)
  assert.ok((huge?.bytes.length ?? Infinity) < 1_100_000)
})

test('line separators in names stay data', () => {
  const body = { ...envelope, correlation_id: hostile, idem_key: hostile, tool_name: hostile }
  const decoded = decode(body)
  assert.equal(called(decoded).input.tool, hostile)
  const reply = unpack(codec.reply(addressed(decoded), ended(), now).bytes) as { correlation_id: string }
  assert.equal(reply.correlation_id, hostile)
  const { error } = refused(decode({ ...envelope, tool_args: { [hostile]: Number.NaN } }))
  assert.doesNotMatch(error.message + JSON.stringify(error.details), /[\p{Cc}\u2028\u2029]|\\u001b/u)
})

test('the codec decodes or refuses any bytes, and never throws', () => {
  const names = fc.constantFrom(...Object.keys(envelope), 'x')
  const values = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom(...Object.values(envelope)))
  const envelopes = fc.dictionary(names, values).map((value) => pack(value))
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 80 }), envelopes)
  fc.assert(
    fc.property(bytes, (body) => {
      const asked = message(body, place)
      const decoded = codec.decode(asked)
      const error = new ToolError('INTERNAL', 'x')
      codec.deadLetter?.(asked, { error, deliveries: 1 }, now)
      if (decoded.kind === 'call') assert.notEqual(decoded.session, '')
      if (decoded.address === undefined) return
      assert.equal(decoded.address.to, envelope.reply_to)
      codec.reply(decoded.address, { kind: 'refused', error }, now)
    }),
    { numRuns: 2_000 },
  )
})
