import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { type DefinedTool, defineTool, type ToolContext } from '@gantry/core'
import { kafkaServer } from '../src/brokers/transports/kafka/kafka.fixture.ts'
import { eventually, type Heard } from './broker-site.fixture.ts'
import { createSearch } from './canary-search.fixture.ts'
import { kafkaCallTests } from './kafka-calls.fixture.ts'
import { codeOf, dead, jobs, log, openKafkaSite, others, outbound, results, topics } from './kafka-site.fixture.ts'

/** The numbers are those of the attack list; docs/security-tests.md has the whole table. */

const kafka = await kafkaServer()
after(() => (typeof kafka === 'string' ? undefined : kafka.stop()))
const skip = typeof kafka === 'string' ? kafka : false
if (typeof kafka !== 'string') await kafka.createTopics(topics, 1)

const red: Identity = { principal: 'operator', tenant: 'red', permissions: ['*'] }
const blue: Identity = { principal: 'operator', tenant: 'blue', permissions: ['*'] }
const secret = 'canary-5d1e-hunter2-kafka'

interface Note {
  readonly identity: Identity
  readonly args: unknown
}

function testTools(notes: Note[]): DefinedTool[] {
  const about = {
    namespace: 'test',
    version: '1.0.0',
    description: 'A tool of a test.',
    inputSchema: { type: 'object' },
  }
  const run = (args: unknown, { identity }: ToolContext): string =>
    `${identity.principal} ${notes.push({ identity, args })}`
  return [
    defineTool({ ...about, name: 'note', effect: 'once', run }),
    defineTool({ ...about, name: 'again', effect: 'repeatable', run }),
    defineTool({ ...about, name: 'admin', effect: 'once', permissions: ['admin'], run }),
    defineTool({
      ...about,
      name: 'leak',
      effect: 'read',
      secrets: ['TOKEN'],
      run(args, context) {
        run({ secret: context.secrets.TOKEN }, context)
        context.log(`the token is ${context.secrets.TOKEN}`)
        context.send({ text: `take ${context.secrets.TOKEN}` })
        throw new Error(
          `cannot use ${Buffer.from(context.secrets.TOKEN ?? '').toString('base64')}, ${JSON.stringify(args)}`,
        )
      },
    }),
  ]
}

for (const [name, check] of Object.entries(kafkaCallTests)) {
  test(name, { skip }, async (t) => {
    if (typeof kafka !== 'string') await check(t, kafka)
  })
}

test('attacks by messages over Kafka', { skip }, async (t) => {
  if (typeof kafka === 'string') throw new Error(kafka)
  const notes: Note[] = []
  const secrets = { get: async () => secret }
  const site = { ...(await openKafkaSite(t, kafka, { tools: testTools(notes), secrets })), notes }
  const isServed = async (): Promise<void> => assert.match((await site.event()).payload.result, /^log /)

  await t.test(
    '107: users, tenants, roles and permissions claimed in an event or its headers are ignored',
    async () => {
      const forged = {
        tenant: 'blue',
        tenant_id: 'blue',
        principal: 'root',
        user_id: 'root',
        roles: ['admin'],
        permissions: ['*'],
        identity: { principal: 'root', tenant: 'blue', permissions: ['*'] },
      }
      const headers = { tenant_id: 'blue', principal: 'root', authorization: 'Bearer root', permissions: '*' }
      const refused = await site.event(
        { ...forged, metadata: forged, persona_id: 'root', tool_name: 'test:admin' },
        headers,
      )
      assert.equal(codeOf(refused), 'DENIED')
      assert.match((await site.event({ ...forged, metadata: forged }, headers)).payload.result, /^log /)
      assert.deepEqual(site.notes.at(-1)?.identity, { ...log, ...pick(site.notes.at(-1)?.identity) })
      assert.equal(site.notes.at(-1)?.identity.tenant, 'red')
      assert.deepEqual(site.notes.at(-1)?.identity.permissions, [])
      // The native format rejects unknown members.
      assert.equal(codeOf(await site.native({ identity: forged.identity })), 'PAYLOAD_INVALID')
      assert.equal(codeOf(await site.native({ tool: 'test:admin' })), 'DENIED')
    },
  )

  await t.test('109: a repeated event is answered with the stored result and runs nothing', async () => {
    const [before, event_id] = [site.notes.length, randomUUID()]
    const event = JSON.stringify({ event_id, session_id: 's', tool_name: 'test:note', args: { pay: 1 }, metadata: {} })
    for (let n = 0; n < 4; n++) await site.sendBytes(event)
    const answers = await site.answersTo(event_id, 4)
    assert.equal(new Set(answers.map(({ payload }) => payload.result)).size, 1)
    assert.equal(site.notes.length, before + 1)
    // The same id with other arguments is a conflict, not a repeat.
    await site.sendBytes(event.replace('"pay":1', '"pay":1000'))
    const [, , , , changed] = await site.answersTo(event_id, 5)
    assert.equal(codeOf(changed), 'IDEMPOTENCY_CONFLICT')
    assert.equal(site.notes.length, before + 1)
  })

  await t.test(
    '112: an idempotency key used by another principal starts a separate call, and a tenant cannot read another’s calls',
    async () => {
      const { callId } = await site.native({ idempotencyKey: 'mine', args: { q: 1 } })
      const before = site.notes.length
      for (const other of [red, blue]) {
        const own = await site.service.submit(
          { kind: 'call', tool: 'test:note', args: { q: 1 }, idempotencyKey: 'mine' },
          other,
        )
        assert.notEqual(own.callId, callId)
        await site.service.wait(own.callId, other, 10_000, new AbortController().signal)
      }
      assert.equal(site.notes.length, before + 2)
      await assert.rejects(site.service.call(callId, blue), { code: 'NOT_FOUND' })
      assert.equal((await site.service.call(callId, red)).callId, callId)
    },
  )

  await t.test('113: replies go to the topic of results only', async () => {
    const [before, deadLetters] = [site.notes.length, await site.deadLetters()]
    const foreign = [...others, jobs, dead, outbound, '__consumer_offsets', '../x', 'a\nb', '*']
    for (const replyTo of foreign) {
      await site.sendBytes(JSON.stringify({ tool: 'test:note', args: {}, correlationId: randomUUID(), replyTo }))
    }
    await eventually(
      async () => ((await site.deadLetters()) >= deadLetters + foreign.length ? true : undefined),
      'dead letters',
    )
    assert.equal(site.notes.length, before)
    await isServed()
    assert.deepEqual(
      site.heard.filter(({ topic }) => others.includes(topic)),
      [],
    )
    assert.match((await site.native({ replyTo: results })).result.output, /^log /)
  })

  await t.test('117, 122: hostile tool names break no log line and add no metric', async () => {
    const from = site.lines.length
    for (let n = 0; n < 20; n++) {
      const tool_name = `x${n}:y\n{"level":"error"}\r\u2028\u2029\u001b[31m\u0085`
      assert.match(
        codeOf(await site.event({ tool_name })) ?? '',
        /^(?:TOOL_NOT_FOUND|TOOL_ID_INVALID|PAYLOAD_INVALID)$/,
      )
    }
    const lines = site.lines.slice(from)
    assert.ok(lines.length >= 20)
    for (const line of lines) {
      assert.equal(typeof JSON.parse(line), 'object')
      assert.doesNotMatch(line.replace(/\n$/, ''), /[\p{Cc}\u2028\u2029]/u)
    }
    assert.doesNotMatch((await site.service.metrics()).text, /x1:|u2028|\[31m/)
  })

  await t.test('119: a call with a schema digest other than the current one is rejected as stale', async () => {
    const before = site.notes.length
    for (const schemaDigest of ['0'.repeat(64), 'sha256:x', '*']) {
      assert.equal(codeOf(await site.native({ schemaDigest })), 'CATALOG_STALE', schemaDigest)
    }
    assert.equal(site.notes.length, before)
    const { digest = '' } = await site.service.executor.describe('test:note', { identity: red, level: 'full' })
    assert.match((await site.native({ schemaDigest: digest })).result.output, /^log /)
  })

  await t.test('123: undecodable messages become dead letters, and other messages are served', async () => {
    const deadLetters = await site.deadLetters()
    const broken = [
      'neither JSON nor anything',
      '{"tool":',
      '[]',
      'null',
      '"x"',
      '\u0000',
      '{"__proto__":{"tool":"test:note"}}',
      `{"tool":"test:note","args":${'{"a":'.repeat(500)}1${'}'.repeat(500)}}`,
      '{"event_id":"e","session_id":"s","tool_name":["test:note"],"args":{},"metadata":{}}',
    ]
    for (const bytes of broken) await site.sendBytes(bytes)
    await isServed()
    await eventually(async () => ((await site.deadLetters()) >= deadLetters + 6 ? true : undefined), 'dead letters')
  })

  await t.test(
    '125: only the dead letter’s own tenant can redrive it, and it runs as the original caller',
    async () => {
      const correlationId = randomUUID()
      await site.sendBytes(JSON.stringify({ tool: 'test:again', args: {}, correlationId, delayMs: 3_600_000 }))
      await eventually(async () => {
        const rows = await site.database.query(
          `update gantry.queue set lost = 3, deaths = 3, lane = 'ready', run_at = now()
         where call_id in (select call_id from gantry.calls where reply like $1) returning call_id`,
          [`%${correlationId}%`],
        )
        return rows.length === 0 ? undefined : true
      }, 'a call that waits')
      const [{ callId }] = (await site.answersTo(correlationId)) as [Heard]
      await assert.rejects(site.service.redrive(callId, blue), { code: 'NOT_FOUND' })
      await site.service.redrive(callId, red)
      const [, again] = await site.answersTo(correlationId, 2)
      assert.match(again.result.output, /^log /)
    },
  )

  await t.test('77, 80: no reply, message, dead letter, log line or metric holds the secret', async () => {
    const answer = await site.event({ tool_name: 'test:leak' })
    assert.equal(answer.status, 'error')
    assert.ok(site.notes.some(({ args }) => (args as { secret?: string }).secret === secret))
    await eventually(async () => site.heard.find(({ topic }) => topic === outbound), 'a message')
    const { find } = createSearch({ secret })
    const places = [...site.heard.map(({ text }) => text), ...site.lines, (await site.service.metrics()).text]
    assert.ok(places.some((text) => text.includes('take [redacted]')))
    assert.deepEqual(places.flatMap(find), [])
  })
})

/** The members that the transport adds to the configured identity. */
function pick(identity: Identity | undefined): Partial<Identity> {
  return identity?.roles === undefined ? {} : { roles: identity.roles }
}
