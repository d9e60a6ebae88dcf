import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import { listOf, numberOf } from '../src/brokers/transports/redis/reply.ts'
import { answersTo, eventually, jobs, native, openBrokerSite } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'

const file = redisForFile()
const red = { principal: 'someone', tenant: 'red', permissions: ['*'] }

test('calls over Redis', async (t) => {
  const { url } = await file.server(t)
  const database = await pgliteDatabase(t)
  const site = await openBrokerSite(t, { redisUrl: url, database })
  const pendingCount = async (): Promise<number> =>
    numberOf(listOf(await site.redis.call(['XPENDING', jobs, 'sg:tools']))[0]) ?? 0

  await t.test(
    'a Stargazer request runs as the identity of its session, and its reply goes to its stream',
    async () => {
      const correlation = await site.call({ tool_args: { text: 'one' } })
      const { result, writeback, error } = await site.reply(correlation)
      assert.equal(error, undefined)
      assert.match(result, /^discord:1 \d+$/)
      assert.deepEqual(writeback, { sent_files: [], injected_tools: [], sent_rich_messages: [] })
      const { identity } = site.notes.at(-1) ?? assert.fail()
      assert.deepEqual(
        { principal: identity.principal, tenant: identity.tenant, roles: identity.roles },
        { principal: 'discord:1', tenant: 'red', roles: ['platform:discord', 'guild:discord:g', 'channel:discord:c'] },
      )
      assert.equal(await pendingCount(), 0)
    },
  )

  await t.test('the origin that a gateway sends reaches the tool as data and never changes the identity', async () => {
    const said = { user_name: 'Ada', message_id: 'm-1', room_context: { topic: 'x' }, disclosed_skill_ids: ['s'] }
    const ctx = { trace_id: 'trace-1', observability_request_id: 'o-1', user_id: 'root', platform: 'forged', ...said }
    const reply = await site.reply(await site.call({ tool_name: 'occasion', ctx, reply_to: answersTo }))
    const seen = JSON.parse(reply.result)
    assert.deepEqual(seen.origin, { ...said, observability_request_id: 'o-1' })
    assert.equal(seen.principal, 'discord:1')
    const plain = await site.reply(await site.call({ tool_name: 'occasion' }))
    assert.equal(JSON.parse(plain.result).origin, null)
  })

  await t.test(
    'binary arguments become base64 where the schema allows it, and are rejected with their path elsewhere',
    async () => {
      const tool_args = { image: Buffer.from([0, 255]) }
      const reply = await site.reply(await site.call({ tool_name: 'occasion', tool_args }))
      assert.deepEqual(JSON.parse(reply.result).args, { image: 'AP8=' })
      const refused = await site.reply(await site.call({ tool_args: { text: Buffer.from([1]) } }))
      assert.equal(refused.code, 'INPUT_INVALID')
      assert.match(refused.error, /\/text is binary data/)
    },
  )

  await t.test('while a circuit is open a gateway gets CIRCUIT_OPEN with the delay before a retry', async () => {
    const broken = async () => site.reply(await site.call({ tool_name: 'broken' }))
    for (let call = 0; call < 5; call++) assert.equal((await broken()).code, 'BACKEND_FAILED')
    const { code, error } = await broken()
    assert.equal(code, 'CIRCUIT_OPEN')
    assert.match(error, /try again in \d+ ms/)
  })

  await t.test(
    'a gateway may name a tool by its id, its versioned id, its plain name or its catalog name',
    async () => {
      for (const tool_name of ['test:note', 'test:note:1.0.0', 'note', 'test__note']) {
        const reply = await site.reply(await site.call({ tool_name }))
        assert.match(reply.result, /^discord:1 /, tool_name)
      }
    },
  )

  await t.test('a second message under the same idempotency key gets the stored result and runs nothing', async () => {
    const before = site.notes.length
    const first = await site.reply(await site.call({ idem_key: 'k-1', tool_args: { text: 'x' } }))
    const second = await site.reply(await site.call({ idem_key: 'k-1', tool_args: { text: 'x' } }))
    assert.equal(second.result, first.result)
    const third = await site.reply(await site.call({ idem_key: 'k-1', tool_args: { text: 'another' } }))
    assert.equal(third.code, 'IDEMPOTENCY_CONFLICT')
    assert.equal(site.notes.length, before + 1)
  })

  await t.test('a second message for a running call gets the same result when the call ends', async () => {
    const asked = await Promise.all([1, 2].map(() => site.call({ tool_name: 'wait', idem_key: 'k-2' })))
    await eventually(async () => ((await pendingCount()) === 0 ? true : undefined), 'both messages settled')
    site.release()
    const [first, second] = await Promise.all(asked.map((correlation) => site.reply(correlation)))
    assert.match(first.result, /^discord:1 /)
    assert.equal(second.result, first.result)
  })

  await t.test('an inadmissible request gets an error reply and becomes no dead letter', async () => {
    const deadLetters = (await site.service.deadLetters({}, red)).items.length
    assert.equal((await site.reply(await site.call({ tool_name: 'not_there' }))).code, 'TOOL_NOT_FOUND')
    assert.equal((await site.reply(await site.call({ tool_args: { text: 7 } }))).code, 'INPUT_INVALID')
    assert.equal((await site.reply(await site.call({ ctx: { trace_id: 'missing' } }))).code, 'UNAUTHENTICATED')
    assert.equal((await site.service.deadLetters({}, red)).items.length, deadLetters)
  })

  await t.test(
    'an undecodable message becomes a dead letter in the database and in Redis, and other messages are served',
    async () => {
      const position = await site.sendBytes(Buffer.from('neither JSON nor MessagePack'))
      const [letter] = await eventually(async () => {
        const found = (await site.heard('sg:stream:dlq')).filter((one) => one.original_msg_id === position)
        return found.length === 0 ? undefined : found
      }, 'a dead letter in Redis')
      assert.equal(letter.original_stream, jobs)
      assert.equal(Buffer.from(letter.data).toString(), 'neither JSON nor MessagePack')
      const { items } = await site.service.deadLetters({}, red)
      const kept = items.find(({ source, code }) => source === jobs && code === 'PAYLOAD_INVALID')
      assert.ok(kept !== undefined)
      const { payload } = await site.service.deadLetter(kept.id, red)
      assert.equal(payload, 'neither JSON nor MessagePack')
      assert.match((await site.reply(await site.call())).result, /^discord:1 /)
    },
  )

  await t.test(
    'a tool’s outbound message is sent once, and the reply lists its messages, files and tools',
    async () => {
      const correlation = await site.call({ tool_name: 'report' })
      const { result, writeback } = await site.reply(correlation)
      assert.equal(result, '{"done":true}')
      assert.deepEqual(writeback.sent_rich_messages, [{ text: 'I am on it.' }])
      assert.deepEqual(writeback.injected_tools, ['note'])
      const [small, large] = writeback.sent_files
      assert.equal(small.filename, 'small.txt')
      assert.equal(Buffer.from(small.data).toString(), 'All is well.')
      assert.deepEqual([large.filename, large.bytes, large.data], ['large.bin', 300_000, undefined])
      const { content } = await site.service.artifact(large.artifact, undefined, red, new AbortController().signal)
      assert.deepEqual(await buffer(content), Buffer.alloc(300_000, 7))
      const sent = await eventually(async () => {
        const those = (await site.heard('sg:stream:outbound')).filter((one) => one.correlation_id === correlation)
        return those.length === 0 ? undefined : those
      }, 'a message')
      assert.deepEqual(sent, [
        {
          correlation_id: correlation,
          trace_id: 'trace-1',
          type: 'rich_message',
          number: 1,
          message: { text: 'I am on it.' },
        },
      ])
    },
  )

  await t.test('a native message, call or chain, is answered in its `replyTo` stream', async () => {
    const usual = { replyTo: answersTo }
    await site.sendJson({ ...usual, tool: 'test:note', args: { text: 'n' }, correlationId: 'n-1' })
    const single = await site.reply('n-1')
    assert.match(single.result.output, /^native /)
    assert.equal(single.callId, single.result.callId)
    const steps = [{ id: 'a', tool: 'test:note', args: { text: 'c' } }]
    await site.sendJson({ ...usual, steps, correlationId: 'n-2' })
    const chain = await site.reply('n-2')
    assert.equal(chain.result.status, 'ok', JSON.stringify(chain))
    await site.sendJson({ ...usual, tool: 'test:note', arg: {}, correlationId: 'n-3' })
    const wrong = await site.reply('n-3')
    assert.equal(wrong.error.code, 'PAYLOAD_INVALID')
    assert.match(wrong.error.message, /did you mean "args"\?/)
  })

  await t.test(
    'a call that becomes a dead letter gets a reply DELIVERY_EXHAUSTED, and another reply when it is redriven',
    async () => {
      await site.sendJson({
        tool: 'test:again',
        args: { text: 'again' },
        correlationId: 'n-4',
        replyTo: answersTo,
        delayMs: 3_600_000,
      })
      // Marks the call as if three workers had died while running it.
      await eventually(async () => {
        const dead = `update queue set lost = 3, deaths = 3, lane = 'ready', run_at = now()
        where call_id in (select call_id from calls where reply like '%n-4%') returning call_id`
        return (await database.query(dead)).length === 0 ? undefined : true
      }, 'a call that waits')
      const given = await site.reply('n-4')
      assert.equal(given.result.error.code, 'DELIVERY_EXHAUSTED')
      const { items } = await site.service.deadLetters({}, native)
      const letter = items.find(({ callId }) => callId === given.callId) ?? assert.fail('no dead letter')
      const { callId } = await site.service.redrive(letter.id, native)
      const [, again] = await site.replies('n-4', 2)
      assert.equal(again.callId, callId)
      assert.match(again.result.output, /^native /)
    },
  )

  await t.test('no request but the redriven one has two replies', async () => {
    const ids = (await site.heard(answersTo)).map((one) => one.correlation_id ?? one.correlationId)
    assert.deepEqual(
      ids.filter((id, at) => ids.indexOf(id) !== at),
      ['n-4'],
    )
  })
})

test('a stopped service completes the calls that it claimed, and the next one completes the rest, each once', async (t) => {
  const { url } = await file.server(t)
  const database = await pgliteDatabase(t)
  const options = { redisUrl: `${url}/1`, database, service: { slots: 4 } }
  const first = await openBrokerSite(t, options)
  const ask = (n: number): Promise<string> => first.call({ tool_name: 'wait', tool_args: { text: `${n}` } })
  const asked = await Promise.all(Array.from({ length: 40 }, (_, n) => ask(n)))
  const running = async () => (await first.service.calls({ state: 'running' }, red)).items.length >= 4 || undefined
  await eventually(running, 'a busy worker')
  const stopped = first.stop()
  first.release()
  await stopped
  const ranBefore = first.notes.length
  assert.ok(ranBefore >= 4 && ranBefore < asked.length, `${ranBefore} ran`)
  const second = await openBrokerSite(t, options)
  second.release()
  for (const correlation of asked) assert.match((await second.reply(correlation)).result, /^discord:1 /)
  assert.equal(ranBefore + second.notes.length, asked.length)
  assert.equal(new Set([...first.notes, ...second.notes].map(({ text }) => text)).size, asked.length)
})
