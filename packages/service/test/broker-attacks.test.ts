import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '@gantry/contract'
import { decode, ExtData, encode } from '@msgpack/msgpack'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { listOf, numberOf } from '../src/brokers/transports/redis/reply.ts'
import { answersTo, eventually, jobs, native, openBrokerSite, secretValue, user } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'

/** The numbers are those of the attack list; docs/security-tests.md has the whole table. */

const file = redisForFile()
const red = { principal: 'operator', tenant: 'red', permissions: ['*'] }
const blue = { principal: 'operator', tenant: 'blue', permissions: ['*'] }
const signal = new AbortController().signal
/** Only principals that the configuration names hold permissions. */
const strict: JsonObject = { permissions: [], users: { 'discord:9': ['admin'] } }

test('attacks by messages', async (t) => {
  const { url, password } = await file.server(t)
  const database = await pgliteDatabase(t)
  const site = await openBrokerSite(t, { redisUrl: url, database, redis: strict })
  await site.session('trace-2', { ...user, user_id: '2' })
  await site.session('trace-9', { ...user, user_id: '9' })
  await site.session('trace-blue', { ...user, guild_id: 'blue' })
  const codeOf = async (members: object): Promise<string | undefined> => {
    const { code, status } = await site.reply(await site.call(members))
    return code ?? status
  }
  const deadLetterCount = async (): Promise<number> =>
    Number((await database.query<{ n: number }>('select count(*)::int as n from dead_letters'))[0]?.n)
  const untilDeadLetters = (count: number): Promise<true> =>
    eventually(async () => (await deadLetterCount()) >= count || undefined, `${count} dead letters`)
  const isServed = async (): Promise<void> => assert.match((await site.reply(await site.call())).result, /^discord:1 /)
  const length = async (stream: string): Promise<number> => numberOf(await site.redis.call(['XLEN', stream])) ?? 0

  await t.test('107: users, tenants, roles and permissions claimed in a message are ignored', async () => {
    const forged = {
      user_id: '9',
      tenant: 'blue',
      tenant_id: 'blue',
      principal: 'discord:9',
      roles: ['admin'],
      permissions: ['*'],
      identity: { principal: 'discord:9', tenant: 'blue', permissions: ['*'] },
    }
    const ctx = { ...forged, trace_id: 'trace-1', guild_id: 'blue', platform: 'slack' }
    assert.equal(await codeOf({ ...forged, tool_name: 'test:admin', ctx }), 'DENIED')
    const { result } = await site.reply(await site.call({ ...forged, ctx }))
    assert.match(result, /^discord:1 /)
    const { identity } = site.notes.at(-1) ?? assert.fail()
    assert.deepEqual([identity.tenant, identity.permissions], ['red', []])
    // Fields next to the envelope are read as headers.
    const envelope = { correlation_id: 'h-1', reply_to: answersTo, tool_name: 'test:admin', ctx }
    const data = Buffer.from(encode({ ...envelope, schema_hash: await site.hash() }))
    await site.redis.call(['XADD', jobs, '*', 'principal', 'discord:9', 'tenant_id', 'blue', 'data', data])
    assert.equal((await site.reply('h-1')).code, 'DENIED')
    // Control: the permission and the other tenant exist, for sessions that hold them.
    assert.equal(await codeOf({ tool_name: 'test:admin', ctx: { trace_id: 'trace-9' } }), undefined)
    assert.equal(await codeOf({ ctx: { trace_id: 'trace-blue' } }), undefined)
    assert.equal(site.notes.at(-1)?.identity.tenant, 'blue')
  })

  await t.test('108: a request without a valid session that names its user is unauthenticated', async () => {
    const before = site.notes.length
    await site.session('over')
    await site.redis.call(['PEXPIRE', 'sg:tools:session:over', 1])
    await eventually(
      async () => (await site.redis.call(['EXISTS', 'sg:tools:session:over'])) === 0 || undefined,
      'its end',
    )
    await site.redis.call(['HSET', 'sg:tools:session:hash', 'user_id', '9'])
    await site.redis.call(['SET', 'sg:tools:session:text', '{"user_id":"9","platform":"discord"}'])
    await site.session('large', { ...user, padding: 'x'.repeat(20_000) })
    await site.session('broken', { ...user, user_id: '9\nadmin' })
    await site.session('missing', { platform: 'discord' })
    await site.session('listed', { ...user, user_id: ['9'] })
    const wrong = [
      'over',
      'hash',
      'text',
      'large',
      'broken',
      'missing',
      'listed',
      'never',
      '*',
      'trace-?',
      '../trace-1',
    ]
    const odd = ['trace-1\r\nFLUSHALL', ' trace-1', 'trace-1\0', 'x'.repeat(150)]
    for (const trace_id of [...wrong, ...odd])
      assert.equal(await codeOf({ ctx: { trace_id } }), 'UNAUTHENTICATED', trace_id)
    for (const ctx of [undefined, {}, { trace_id: '' }, { trace_id: 7 }, { trace_id: null }]) {
      assert.equal(await codeOf({ ctx }), 'UNAUTHENTICATED', JSON.stringify(ctx))
    }
    assert.equal(site.notes.length, before)
    await isServed()
  })

  await t.test(
    '108: a request that precedes its session is rejected, and does not run when the session appears',
    async () => {
      const before = site.notes.length
      const early = await site.call({ tool_name: 'test:admin', ctx: { trace_id: 'later' } })
      assert.equal((await site.reply(early)).code, 'UNAUTHENTICATED')
      await site.session('later', { ...user, user_id: '9' })
      await isServed()
      assert.equal(site.notes.length, before + 1)
      assert.equal(await codeOf({ tool_name: 'test:admin', ctx: { trace_id: 'later' } }), undefined)
    },
  )

  await t.test('109: a repeated envelope is answered with the stored result and runs nothing', async () => {
    const before = site.notes.length
    const envelope = { correlation_id: 'r-1', idem_key: 'pay-1', schema_hash: await site.hash(), reply_to: answersTo }
    const bytes = encode({
      ...envelope,
      tool_name: 'test:note',
      tool_args: { text: 'pay' },
      ctx: { trace_id: 'trace-1' },
    })
    for (let n = 0; n < 5; n++) await site.sendBytes(bytes)
    const replies = await site.replies('r-1', 5)
    assert.equal(new Set(replies.map(({ result }) => result)).size, 1)
    assert.equal(site.notes.length, before + 1)
    // Control: another idempotency key starts another call.
    await site.reply(await site.call({ idem_key: 'pay-2', tool_args: { text: 'pay' } }))
    assert.equal(site.notes.length, before + 2)
  })

  await t.test(
    '112: an idempotency key used by another principal starts a separate call and never returns the other’s result',
    async () => {
      const asked = { idem_key: 'mine', tool_args: { text: 'secret question' } }
      const { result } = await site.reply(await site.call(asked))
      const others = ['trace-2', 'trace-blue']
      for (const trace_id of others) {
        const reply = await site.reply(await site.call({ ...asked, ctx: { trace_id } }))
        assert.notEqual(reply.result, result)
        const { identity } = site.notes.at(-1) ?? assert.fail()
        assert.equal(
          `${identity.principal} ${identity.tenant}`,
          trace_id === 'trace-2' ? 'discord:2 red' : 'discord:1 blue',
        )
      }
      assert.equal((await site.reply(await site.call(asked))).result, result)
    },
  )

  await t.test('112: a tenant does not find the calls and artifacts of another', async () => {
    const reply = await site.reply(await site.call({ tool_name: 'test:report' }))
    const { artifact } = reply.writeback.sent_files[1]
    await assert.rejects(site.service.artifact(artifact, undefined, blue, signal), { code: 'NOT_FOUND' })
    assert.equal((await site.service.artifact(artifact, undefined, red, signal)).artifact.bytes, 300_000)
    const [call] = (await site.service.calls({}, red)).items
    await assert.rejects(site.service.call(call?.callId ?? '', blue), { code: 'NOT_FOUND' })
    assert.equal((await site.service.call(call?.callId ?? '', red)).callId, call?.callId)
  })

  await t.test('113: replies go to reply streams only', async () => {
    const [before, deadLetters, sizes] = [
      site.notes.length,
      await deadLetterCount(),
      await length('sg:stream:outbound'),
    ]
    const foreign = [
      jobs,
      'sg:stream:dlq',
      'sg:stream:outbound',
      'sg:tools:session:replies',
      'sg:tools:catalog:replies',
      'sg:pubsub:replies',
      'other:replies',
      'sg:stream:secrets',
      'sg:repl*',
      'sg:repl\r\nx',
      'sg:repliés',
    ]
    for (const reply_to of foreign) await site.call({ reply_to })
    await site.sendJson({ tool: 'test:note', replyTo: jobs })
    await untilDeadLetters(deadLetters + foreign.length + 1)
    assert.equal(site.notes.length, before)
    const codes = await database.query<{ code: string }>(
      `select code from dead_letters order by created_at desc limit ${foreign.length + 1}`,
    )
    assert.deepEqual([...new Set(codes.map(({ code }) => code))], ['DENIED'])
    for (const name of foreign.filter((one) => !one.startsWith('sg:stream:'))) {
      assert.equal(await site.redis.call(['EXISTS', name]), 0, name)
    }
    assert.equal(await length('sg:stream:outbound'), sizes)
    const other = await site.call({ reply_to: 'sg:stream:replies:other' })
    const [answer] = await eventually(async () => {
      const heard = await site.heard('sg:stream:replies:other')
      return heard.length === 0 ? undefined : heard
    }, 'an answer elsewhere')
    assert.equal(answer.correlation_id, other)
  })

  await t.test('113: a reply that its stream refuses does not delay other replies', async () => {
    await site.redis.call(['SET', 'sg:replies:text', 'x'])
    for (let n = 0; n < 20; n++) await site.call({ reply_to: 'sg:replies:text' })
    await isServed()
    assert.equal(String(await site.redis.call(['GET', 'sg:replies:text'])), 'x')
    const letter = await eventually(async () => {
      const { items } = await site.service.deadLetters({}, red)
      return items.find(({ id }) => id.startsWith('callback-'))
    }, 'a dead letter of an answer')
    await site.redis.call(['DEL', 'sg:replies:text'])
    await site.service.redrive(letter.id, red)
    await eventually(async () => ((await length('sg:replies:text')) > 0 ? true : undefined), 'the answer')
  })

  await t.test('114: an artifact is found by its id and by nothing that looks like a path', async () => {
    for (const id of ['../../key', '..%2f..%2fkey', '/etc/passwd', 'a\0b', '', 'x'.repeat(5_000), 'sha256:../../key']) {
      await assert.rejects(site.service.artifact(id, undefined, red, signal), { code: 'NOT_FOUND' }, id)
    }
  })

  await t.test('117, 122: hostile tool names break no log line and add no metric', async () => {
    const from = site.log.length
    const names = Array.from(
      { length: 50 },
      (_, n) => `x${n}\n{"level"${n % 2 ? ':' : ' '}"error"}\r\u2028\u2029\u001b[31m\u0085`,
    )
    const asked = await Promise.all(
      names.map((tool_name) => site.call({ tool_name, correlation_id: `l-${tool_name}` })),
    )
    for (const correlation of asked)
      assert.match((await site.reply(correlation)).code, /^TOOL_(?:NOT_FOUND|ID_INVALID)$/)
    await site.call({ reply_to: 'sg:\n\u2028\u001b[31m', tool_name: names[0] })
    await site.sendJson({ 'tool\n\u2028': 1, replyTo: answersTo, correlationId: 'l-json' })
    assert.equal((await site.reply('l-json')).error.code, 'PAYLOAD_INVALID')
    const lines = site.log.slice(from)
    assert.ok(lines.length > names.length)
    for (const line of lines) {
      assert.ok(typeof JSON.parse(line) === 'object')
      assert.doesNotMatch(line.replace(/\n$/, ''), /[\p{Cc}\u2028\u2029]/u)
    }
    assert.doesNotMatch((await site.service.metrics()).text, /x1\b|u2028|\[31m/)
  })

  await t.test('119: a request without a schema hash runs the current tool with the current permissions', async () => {
    for (const schema_hash of [undefined, '', null]) {
      assert.match((await site.reply(await site.call({ schema_hash }))).result, /^discord:1 /)
      assert.equal(await codeOf({ schema_hash, tool_name: 'test:admin' }), 'DENIED')
      assert.equal(await codeOf({ schema_hash, tool_args: { text: 7 } }), 'INPUT_INVALID')
      assert.equal(await codeOf({ schema_hash, tool_name: 'not_there' }), 'TOOL_NOT_FOUND')
      assert.equal(await codeOf({ schema_hash, ctx: { trace_id: 'missing' } }), 'UNAUTHENTICATED')
    }
  })

  await t.test('119: an invented or misspelled catalog hash is rejected as stale', async () => {
    const before = site.notes.length
    const hash = await site.hash()
    for (const schema_hash of ['0'.repeat(64), hash.toUpperCase(), `${hash} `, '*', '../x']) {
      assert.equal(await codeOf({ schema_hash }), 'CATALOG_STALE', String(schema_hash))
    }
    assert.equal(site.notes.length, before)
    await isServed()
  })

  await t.test(
    'oversized messages and MessagePack beyond JSON become dead letters, and other messages are served',
    async () => {
      const head = { correlation_id: 'm-1', reply_to: answersTo, tool_name: 'test:note', ctx: { trace_id: 'trace-1' } }
      const withArgs = (args: Uint8Array): Buffer => {
        const start = Buffer.from(encode({ ...head, tool_args: 0 }))
        return Buffer.concat([start.subarray(0, -1), args])
      }
      const twice = Buffer.from([0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2])
      const bombs: { readonly [name: string]: Uint8Array } = {
        list: Buffer.from('ddffffffff', 'hex'),
        map: Buffer.from('dfffffffff', 'hex'),
        text: Buffer.from('dbffffffff', 'hex'),
        binary: encode(new Uint8Array(10)),
        extension: encode(new ExtData(7, new Uint8Array(4))),
        time: encode(new Date(0)),
        twice,
        proto: Buffer.concat([Buffer.from('81a9', 'hex'), Buffer.from('__proto__'), Buffer.from([0x80])]),
        deep: Buffer.alloc(100_000, 0x91),
        many: encode(Array.from({ length: 20_000 }, () => 1)),
        number: encode(Number.NaN),
        big: encode(2n ** 60n, { useBigInt64: true }),
      }
      // Control: a lenient decoder accepts some of them.
      assert.deepEqual(decode(twice), { a: 2 })
      assert.ok(decode(bombs.extension ?? new Uint8Array()) instanceof ExtData)
      const [before, deadLetters] = [site.notes.length, await deadLetterCount()]
      for (const bomb of Object.values(bombs)) await site.sendBytes(withArgs(bomb))
      const replies = await site.replies('m-1', Object.keys(bombs).length)
      assert.deepEqual([...new Set(replies.map(({ code }) => code))], ['PAYLOAD_INVALID'])
      const member = JSON.stringify({ replyTo: answersTo, correlationId: 'm-2', tool: 'test:note' }).slice(1, -1)
      const texts = [
        `{"tool":"test:admin",${member}}`,
        `{${member},"args":{"__proto__":{}}}`,
        `{${member},"args":{"n":1e999}}`,
      ]
      for (const text of texts) await site.sendBytes(Buffer.from(text))
      for (const { error } of await site.replies('m-2', texts.length)) assert.equal(error.code, 'PAYLOAD_INVALID')
      for (let n = 0; n < 5; n++) await site.sendBytes(withArgs(encode('x'.repeat(1_100_000))))
      for (let n = 0; n < 5; n++) await site.sendJson({ tool: 'test:note', args: { text: 'x'.repeat(1_100_000) } })
      await untilDeadLetters(deadLetters + Object.keys(bombs).length + texts.length + 10)
      assert.equal(site.notes.length, before)
      const [most] = await database.query<{ bytes: number }>(
        'select max(length(payload))::int as bytes from dead_letters',
      )
      assert.ok((most?.bytes ?? 0) <= 22_000)
      await isServed()
    },
  )

  await t.test(
    'a flood of messages that cannot be decoded delays no call, and each becomes a dead letter',
    async () => {
      const deadLetters = await deadLetterCount()
      const flood = Array.from({ length: 1_000 }, (_, n) => site.sendBytes(Buffer.from(`garbage ${n}`)))
      await isServed()
      await Promise.all(flood)
      await isServed()
      await untilDeadLetters(deadLetters + 1_000)
      assert.equal(await deadLetterCount(), deadLetters + 1_000)
    },
  )

  await t.test(
    '125: only the dead letter’s own tenant can redrive it, and it runs as the original caller',
    async () => {
      const asked = { tool: 'test:again', args: {}, correlationId: 'd-1', replyTo: answersTo, delayMs: 3_600_000 }
      await site.sendJson(asked)
      await eventually(async () => {
        const dead = `update queue set lost = 3, deaths = 3, lane = 'ready', run_at = now()
        where call_id in (select call_id from calls where reply like '%d-1%') returning call_id`
        return (await database.query(dead)).length === 0 ? undefined : true
      }, 'a call that waits')
      const id = (await site.reply('d-1')).callId
      await assert.rejects(site.service.redrive(id, blue), { code: 'NOT_FOUND' })
      await site.service.redrive(id, red)
      const [, again] = await site.replies('d-1', 2)
      assert.match(again.result.output, /^native /)
      assert.deepEqual(site.notes.at(-1)?.identity.principal, native.principal)
    },
  )

  await t.test('77: no reply, message, dead letter or log line holds the secret', async () => {
    const reply = await site.reply(await site.call({ tool_name: 'test:leak' }))
    assert.ok(site.notes.some(({ text }) => text === secretValue))
    assert.match(reply.error, /^Tool 'test:leak' raised Error on the tools service\.$/)
    await eventually(async () => ((await length('sg:stream:outbound')) > 1 ? true : undefined), 'a message')
    const streams = [answersTo, 'sg:stream:outbound', 'sg:stream:dlq']
    const everything = await Promise.all(
      streams.map(async (name) =>
        listOf(await site.redis.call(['XRANGE', name, '-', '+']))
          .map(bytesOf)
          .join(),
      ),
    )
    assert.match(everything.join(), /I am on it/)
    for (const text of [...everything, site.log.join('')]) {
      assert.ok(!text.includes(secretValue))
      assert.ok(!text.includes(password))
    }
  })
})

test('with open reply streams and errorText, replies go to any stream but the service’s own, and exceptions are sent in full', async (t) => {
  const { url } = await file.server(t)
  const open = { replies: ['*'], errorText: true }
  const site = await openBrokerSite(t, { redisUrl: `${url}/2`, database: await pgliteDatabase(t), redis: open })
  assert.match((await site.reply(await site.call({ tool_name: 'test:leak' }))).error, /cannot use \[redacted/)
  await site.call({ reply_to: 'other:stream' })
  await eventually(async () => ((await site.heard('other:stream')).length > 0 ? true : undefined), 'an answer')
  // The service's own streams stay refused: a reply there would be read back as a message.
  const notes = site.notes.length
  for (const reply_to of [jobs, 'sg:stream:dlq', 'sg:stream:outbound']) await site.call({ reply_to })
  await eventually(async () => ((await site.heard('sg:stream:dlq')).length === 3 ? true : undefined), 'dead letters')
  assert.equal(site.notes.length, notes)
})

/** The text of a stream entry with its nested lists. */
function bytesOf(value: unknown): string {
  return Array.isArray(value)
    ? value.map(bytesOf).join()
    : Buffer.isBuffer(value)
      ? value.toString('latin1')
      : String(value)
}
