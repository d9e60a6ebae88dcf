import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ArtifactRef, ToolError } from '@gantry/contract'
import { defineTool, type ToolContext } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import { artifactRecords } from '../../storage/artifacts/artifact-records.ts'
import type { Claim, ReplyAddress } from '../../storage/calls/call-store.ts'
import { heldClaim } from '../../storage/calls/claim.fixture.ts'
import { newStore } from '../../storage/calls.fixture.ts'
import { journalRecords } from '../../storage/journal.ts'
import { outboxPosts, type PostedItem } from '../../storage/outbox/outbox.ts'
import { type CallEffectsPorts, createCallEffects } from './effects.ts'
import { runCall } from './execute-call.ts'
import { createInnerCharges } from './inner-charges.ts'
import { unlimited } from './run-chain.fixture.ts'
import { runDurableChain } from './run-chain.ts'

const reply: ReplyAddress = { codec: 'native', transport: 'redis', to: 'answers', data: {} }
const { signal } = new AbortController()
const report = (): void => undefined

function claimOf(given: Partial<Claim['call']> = {}, fence = 1): Claim {
  const call: Claim['call'] = {
    callId: 'c-1',
    kind: 'call',
    identity: { principal: 'ada', tenant: 'acme', permissions: [] },
    fingerprint: 'f',
    tool: 'test:it',
    effect: 'repeatable',
    payloadBytes: 2,
    reply,
    ...given,
  }
  return { ...heldClaim(call), fence }
}

function executorOf(run: (args: { n?: number }, context: ToolContext) => unknown) {
  const inputSchema = { type: 'object', properties: { n: { type: 'number' } } } as const
  const it = defineTool({
    namespace: 'test',
    name: 'it',
    description: 'It.',
    effect: 'repeatable',
    inputSchema,
    run,
  })
  return createExecutor({ tools: [it] })
}

const encode: CallEffectsPorts['encode'] = ({ to }, sent) => ({ target: to, body: JSON.stringify(sent) })
const keepFile = (): Promise<ArtifactRef> => assert.fail('no file')

/** An outbox that records its messages and is unavailable for a given time. */
function memoryPosts() {
  const items: PostedItem[] = []
  const posts = {
    items,
    unavailable: 0,
    async post(posted: readonly PostedItem[]): Promise<void> {
      if (posts.unavailable-- > 0) throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
      items.push(...posted)
    },
  }
  return posts
}

test('a message is in the outbox, under its number, while its tool runs', async (t) => {
  const posts = memoryPosts()
  const posted = Promise.withResolvers<void>()
  const post = async (items: readonly PostedItem[]): Promise<void> => {
    await posts.post(items)
    posted.resolve()
  }
  const executor = executorOf(async (_args, { send }) => {
    send({ hello: 'world' })
    send('two')
    await posted.promise
    return posts.items.length
  })
  t.after(() => executor.close())
  const claim = claimOf()
  const effectSink = createCallEffects({ posts: { post }, encode, keepFile }).of(claim)
  const result = await runCall({ executor, claim, args: {}, signal, report, effectSink })
  assert.equal(result.output, 2)
  const about = { callId: 'c-1', tenant: 'acme', kind: 'message', target: 'answers' }
  assert.deepEqual(posts.items, [
    { ...about, item: 'send-1', body: '{"callId":"c-1","number":1,"message":{"hello":"world"}}' },
    { ...about, item: 'send-2', body: '{"callId":"c-1","number":2,"message":"two"}' },
  ])
  assert.deepEqual(result.effects, [
    { kind: 'message', message: { hello: 'world' } },
    { kind: 'message', message: 'two' },
  ])
})

test('a message without a publisher is only an effect of the result', async (t) => {
  const posts = memoryPosts()
  const executor = executorOf((_args, { send }) => send('hello'))
  t.after(() => executor.close())
  const { reply: _none, ...byHttp } = claimOf().call
  const cases: readonly (readonly [Claim, CallEffectsPorts['encode']])[] = [
    [{ ...claimOf(), call: byHttp }, () => assert.fail('there is no address')],
    [claimOf(), () => undefined],
  ]
  for (const [claim, encoding] of cases) {
    const effectSink = createCallEffects({ posts, encode: encoding, keepFile }).of(claim)
    const result = await runCall({ executor, claim, args: {}, signal, report, effectSink })
    assert.deepEqual([result.effects, result.warnings], [[{ kind: 'message', message: 'hello' }], []])
  }
  assert.deepEqual(posts.items, [])
})

test('a message that cannot be written is a warning, and does not affect the others', async (t) => {
  const posts = memoryPosts()
  const executor = executorOf((_args, { send }) => {
    for (const text of ['good', 'a\0b', '\ud800', 'fails']) send(text)
  })
  t.after(() => executor.close())
  const claim = claimOf()
  const raw: CallEffectsPorts['encode'] = (_address, { message }) => {
    if (message === 'fails') throw new Error('No words.')
    return { target: 'answers', body: String(message) }
  }
  const effectSink = createCallEffects({ posts, encode: raw, keepFile }).of(claim)
  const { status, effects, warnings } = await runCall({ executor, claim, args: {}, signal, report, effectSink })
  assert.deepEqual([status, effects], ['ok', [{ kind: 'message', message: 'good' }]])
  assert.deepEqual(warnings, [{ code: 'OUTPUT_INVALID', message: 'Of 4 messages, 3 could not be sent.' }])
  assert.deepEqual(
    posts.items.map(({ body }) => body),
    ['good'],
  )
})

test('a tool’s message waits for an unavailable database until the deadline of the call', async (t) => {
  const posts = memoryPosts()
  const executor = executorOf((_args, { send }) => send('hello'))
  t.after(() => executor.close())
  const effectSinks = createCallEffects({ posts, encode, keepFile })
  const run = (claim: Claim) =>
    runCall({ executor, claim, args: {}, signal, report, effectSink: effectSinks.of(claim) })
  posts.unavailable = 2
  assert.equal((await run(claimOf())).effects.length, 1)
  assert.equal(posts.items.length, 1)
  posts.unavailable = Number.POSITIVE_INFINITY
  const late = await run(claimOf({ timeoutMs: 20 }))
  assert.deepEqual([late.status, late.effects], ['ok', []])
  assert.match(late.warnings[0]?.message ?? '', /may or may not have been sent/)
})

test('call effects on a database', async (t) => {
  const database = await pgliteDatabase(t)
  const { store } = await newStore(t)
  const artifacts = artifactRecords(database, store)
  const effectSinks = createCallEffects({
    posts: outboxPosts(database),
    encode: (_address, { callId, number, message }) => ({ target: 'answers', body: `${callId} ${number} ${message}` }),
    keepFile: ({ content, ...about }, { callId, fence, call }, until) => {
      const { tenant } = call.identity
      return artifacts.keep(
        content,
        { tenant, principal: 'ann', holder: { callId, fence }, ...about },
        { maxBytes: 10, signal: until },
      )
    },
  })
  const bodies = async (): Promise<unknown[]> =>
    (await database.query('select body from outbox order by id')).map(({ body }) => body)
  t.beforeEach(() => database.query('truncate outbox, artifacts, queue, journal'))

  await t.test('a later attempt sends the messages that the first did not, and none twice', async () => {
    const messages = ['one', 'two', 'three']
    for (const fence of [1, 2]) {
      const executor = executorOf((_args, { send }) => {
        for (const text of messages.slice(0, fence + 1)) send(`${text} of ${fence}`)
      })
      const claim = claimOf({}, fence)
      const result = await runCall({ executor, claim, args: {}, signal, report, effectSink: effectSinks.of(claim) })
      assert.equal(result.effects.length, fence + 1)
      await executor.close()
    }
    assert.deepEqual(await bodies(), ['c-1 1 one of 1', 'c-1 2 two of 1', 'c-1 3 three of 2'])
  })

  await t.test('a file is an artifact of the attempt that made it', async () => {
    const executor = executorOf((_args, { attach }) => attach({ name: '../notes.txt', content: 'hello' }))
    const claim = claimOf({}, 3)
    const result = await runCall({ executor, claim, args: {}, signal, report, effectSink: effectSinks.of(claim) })
    await executor.close()
    const [artifact] = result.artifacts
    assert.deepEqual(await artifacts.find(artifact?.id ?? '', 'acme'), artifact)
    assert.deepEqual(await database.query('select call_id, fence, name, bytes from artifacts'), [
      { call_id: 'c-1', fence: 3, name: 'notes.txt', bytes: 5 },
    ])
  })

  await t.test('a file over the size limit of the store is refused to the tool', async () => {
    const executor = executorOf((_args, { attach }) => attach({ name: 'a', content: 'x'.repeat(11) }))
    const claim = claimOf()
    const result = await runCall({ executor, claim, args: {}, signal, report, effectSink: effectSinks.of(claim) })
    await executor.close()
    assert.deepEqual([result.status, result.error?.code], ['failed', 'STORE_UNAVAILABLE'])
    assert.deepEqual(await database.query('select id from artifacts'), [])
  })

  await t.test('each call of a chain numbers its own messages, and a resumed chain sends none again', async () => {
    const executor = executorOf(({ n = 0 }, { send }) => {
      for (let sent = 0; sent <= n; sent++) send(`of ${n}`)
    })
    const journal = journalRecords(database)
    const steps = [
      { id: 'first', tool: 'test:it', args: {} },
      { id: 'each', tool: 'test:it', forEach: [0, 1], args: { n: '{{item}}' } },
    ]
    await database.query(`insert into queue (call_id, tenant, fence) values ('c-1', 'acme', 1)`)
    const attempt = (fence: number) => {
      const claim = claimOf({ kind: 'chain', tool: 'chain' }, fence)
      const effectSink = (entry: string) => effectSinks.of(claim, entry)
      const charges = createInnerCharges(unlimited, executor, claim.call.identity)
      return runDurableChain({ executor, journal, claim, charges, payload: { steps }, signal, report, effectSink })
    }
    const chain = await attempt(1)
    // Stands for a worker that was lost before the second call of the last step was done.
    await database.query(`delete from journal where entry = 'each.1'`)
    await database.query('update queue set fence = 2')
    const again = await attempt(2)
    await executor.close()
    assert.deepEqual(await bodies(), [
      'c-1.first 1 of 0',
      'c-1.each.0 1 of 0',
      'c-1.each.1 1 of 1',
      'c-1.each.1 2 of 1',
    ])
    for (const { status, steps: ended } of [chain, again]) {
      const effects = ended.map(({ results }) => results.map((result) => result.effects.length))
      assert.deepEqual([status, effects], ['ok', [[1], [1, 2]]])
    }
  })
})
