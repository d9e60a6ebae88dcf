import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type DefinedTool, defineTool } from 'gantry'
import { Redis } from 'ioredis'
import { redisForFile } from '../../packages/service/src/brokers/transports/redis/redis.fixture.ts'
import { eventually, openBrokerSite } from '../../packages/service/test/broker-site.fixture.ts'
import { pgliteDatabase } from '../../packages/service/test/databases.fixture.ts'
import { type StargazerReply, stargazerGateway } from './stargazer.ts'

const file = redisForFile()
const about = { namespace: 'jobs', version: '1.0.0', description: 'A job.', inputSchema: { type: 'object' } } as const

/** Tools that end when the test releases them: one that may run in the background, and one that may not. */
function slowTools(gate: () => Promise<unknown>): DefinedTool[] {
  const run = async (): Promise<string> => {
    await gate()
    return 'done'
  }
  return [
    defineTool({ ...about, name: 'slow', effect: 'read', run }),
    defineTool({ ...about, name: 'alone', effect: 'read', background: false, run }),
  ]
}

async function openGateway(t: TestContext, redisUrl: string) {
  const replies: StargazerReply[] = []
  const gateway = await stargazerGateway({ redisUrl, onReply: (reply) => void replies.push(reply) })
  t.after(() => gateway.close())
  const redis = new Redis(redisUrl)
  t.after(() => redis.disconnect())
  await eventually(async () => (gateway.catalog() === undefined ? gateway.refresh() : true), 'a catalog')
  return { gateway, redis, to: (id: string) => replies.filter(({ correlation_id }) => correlation_id === id) }
}

test('a Stargazer gateway gets an interim reply with a task id and later the result, and the task record has both', async (t) => {
  const { url } = await file.server(t)
  const gate = Promise.withResolvers<void>()
  const database = await pgliteDatabase(t)
  const tools = slowTools(() => gate.promise)
  await openBrokerSite(t, { redisUrl: url, database, redis: { backgroundMs: 50 }, tools })
  const { gateway, redis, to } = await openGateway(t, url)
  const flags = new Map(gateway.catalog()?.tools.map(({ name, no_background }) => [name, no_background]))
  assert.deepEqual([flags.get('slow'), flags.get('alone'), flags.get('check_task')], [false, true, true])

  const alone = await gateway.send('alone', {}, { correlationId: 'alone' })
  const interim = await gateway.call('slow', {}, { correlationId: 'slow' })
  const task = interim.task_id ?? assert.fail(JSON.stringify(interim))
  const answer = JSON.parse(interim.result ?? '')
  assert.deepEqual([answer.status, answer.task_id], ['running', task])
  assert.deepEqual(interim.writeback, { sent_files: [], injected_tools: [], sent_rich_messages: [] })
  const record = await redis.hgetall(`sg:task:${task}`)
  assert.deepEqual([record.status, record.tool_name, record.correlation_id], ['running', 'slow', 'slow'])
  const check = async (traceId = gateway.traceId) => gateway.call('check_task', { task_id: task }, { traceId })
  assert.equal(JSON.parse((await check()).result ?? '').status, 'running')

  gate.resolve()
  await eventually(async () => (to('slow').length + to(alone).length === 3 ? true : undefined), 'both results')
  assert.deepEqual([to('slow')[0]?.task_id, to('slow')[1]?.result, to('slow')[1]?.task_id], [task, 'done', undefined])
  assert.deepEqual([to(alone)[0]?.result, to(alone)[0]?.task_id], ['done', undefined])
  const ended = await redis.hgetall(`sg:task:${task}`)
  assert.deepEqual([ended.status, ended.result], ['completed', 'done'])
  assert.ok((await redis.pttl(`sg:task:${task}`)) > 0)
  assert.equal(await redis.exists(`sg:task:${alone}`), 0)
  const checked = JSON.parse((await check()).result ?? '')
  assert.deepEqual([checked.status, checked.result, checked.tool], ['completed', 'done', 'jobs:slow:1.0.0'])

  await gateway.openSession('other', { user_id: 'u-2', guild_id: 'g-1', channel_id: 'ch-1', platform: 'discord' })
  assert.equal((await check('other')).code, 'NOT_FOUND', 'a task is for the user whose call it is')
})

test('a background call survives its worker: the interim reply is repeated under the same task id, the result comes once', async (t) => {
  const { url } = await file.server(t)
  const redisUrl = `${url}/3`
  const database = await pgliteDatabase(t)
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let attempts = 0
  const tools = slowTools(() => gates[attempts++]?.promise ?? Promise.resolve())
  const settings = { redisUrl, database, redis: { backgroundMs: 50 }, tools }
  const first = await openBrokerSite(t, settings)
  const { gateway, redis, to } = await openGateway(t, redisUrl)
  const interim = await gateway.call('slow', {}, { correlationId: 'again' })
  await first.stop(0)
  await openBrokerSite(t, settings)
  await eventually(async () => (to('again').length === 2 ? true : undefined), 'a second interim answer')
  gates[1]?.resolve()
  await eventually(async () => (to('again').length === 3 ? true : undefined), 'the result')
  const [one, two, three] = to('again')
  assert.deepEqual([one?.task_id, two?.task_id], [interim.task_id, interim.task_id])
  assert.deepEqual([three?.task_id, three?.result, attempts], [undefined, 'done', 2])
  assert.equal((await redis.hgetall(`sg:task:${interim.task_id}`)).status, 'completed')
})

test('a Stargazer gateway gets CIRCUIT_OPEN at once, and no background task is started', async (t) => {
  const { url } = await file.server(t)
  const redisUrl = `${url}/4`
  let ran = 0
  const failing = defineTool({
    ...about,
    name: 'failing',
    effect: 'read',
    run() {
      ran += 1
      throw new Error('No.')
    },
  })
  const settings = { redisUrl, database: await pgliteDatabase(t), redis: { backgroundMs: 3_600_000 }, tools: [failing] }
  await openBrokerSite(t, settings)
  const { gateway } = await openGateway(t, redisUrl)
  for (let call = 0; call < 5; call++) assert.equal((await gateway.call('failing', {})).code, 'BACKEND_FAILED')
  const { code, error, task_id } = await gateway.call('failing', {})
  assert.deepEqual([code, task_id, ran], ['CIRCUIT_OPEN', undefined, 5])
  assert.match(error ?? '', /try again/)
})
