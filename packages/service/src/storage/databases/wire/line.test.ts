import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { postgresDatabase } from '../../../../test/databases.fixture.ts'
import { failure } from '../../../conformance/database.ts'
import type { Database, Line } from '../database.ts'

async function open(t: TestContext): Promise<{ readonly database: Database; readonly line: Line }> {
  const { database } = await postgresDatabase(t)
  await database.query('create table words (id bigint primary key, word text)')
  await database.query('grant all on words to gantry_service')
  const { line } = database.asService()
  assert.ok(line !== undefined)
  await untilReady(line)
  return { database, line }
}

async function untilReady(line: Line): Promise<void> {
  while (!line.ready) await new Promise((resolve) => setTimeout(resolve, 5))
}

const add = 'insert into words values ($1, $2)'
const read = 'select word from words order by id'

test('pipelined statements run in order, and each sees the writes of those before it', async (t) => {
  const { line } = await open(t)
  const answers = await Promise.all([
    line.query(add, [1, 'a']),
    line.query(read, []),
    line.query(`update words set word = $1`, ['b']),
    line.query(read, []),
    line.query(add, [2, 'c']),
    line.query(read, []),
  ])
  assert.deepEqual(
    [1, 3, 5].map((n) => answers[n]?.map(({ word }) => word)),
    [['a'], ['b'], ['b', 'c']],
  )
})

test('a failed statement does not fail those behind it', async (t) => {
  const { line } = await open(t)
  const first = line.query(add, [1, 'a'])
  const again = line.query(add, [1, 'twice'])
  const wrong = line.query('select nonsense from nowhere')
  const last = line.query(add, [2, 'b'])
  await first
  assert.equal((await failure(again)).code, 'INTERNAL')
  assert.equal((await failure(wrong)).code, 'INTERNAL')
  await last
  assert.deepEqual(
    (await line.query(read)).map(({ word }) => word),
    ['a', 'b'],
  )
})

test('the line runs statements with the rights of the service role', async (t) => {
  const { line } = await open(t)
  assert.deepEqual(await line.query('select current_user as name'), [{ name: 'gantry_service' }])
  assert.equal((await failure(line.query('create table mine (id int)'))).code, 'INTERNAL')
})

test('after a lost connection, sent statements have outcome unknown, later ones outcome none, and the line reopens', async (t) => {
  const { database, line } = await open(t)
  const slow = [line.query('select pg_sleep($1)', [60]), line.query(add, [1, 'a'])].map(failure)
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep%' and pid <> pg_backend_pid()`,
  )
  for (const { code, details } of await Promise.all(slow)) {
    assert.deepEqual([code, details?.outcome], ['STORE_UNAVAILABLE', 'unknown'])
  }
  const { code, details } = await failure(line.query(read))
  assert.deepEqual([code, details?.outcome], ['STORE_UNAVAILABLE', 'none'])
  await untilReady(line)
  assert.deepEqual(await line.query(read), [])
})

test('close() lets sent statements finish and refuses later ones', async (t) => {
  const { database, line } = await open(t)
  const sent = [line.query('select pg_sleep(0.1)'), line.query(add, [1, 'a'])]
  await database.close()
  await Promise.all(sent)
  assert.equal(line.ready, false)
  assert.equal((await failure(line.query(read))).code, 'STORE_UNAVAILABLE')
})

test('statements behind one that could not be prepared have outcome none, and the line can be used again', async (t) => {
  const { line } = await open(t)
  const wrong = 'select word from nowhere where id = $1'
  const [first, second] = [line.query(wrong, [1]), line.query(wrong, [2])].map(failure)
  assert.equal((await first)?.code, 'INTERNAL')
  const { code, details } = (await second) ?? {}
  assert.deepEqual([code, details?.outcome], ['STORE_UNAVAILABLE', 'none'])
  await untilReady(line)
  assert.deepEqual(await line.query(read), [])
})

test('the line is not ready while an answer is slow, but still runs statements sent behind it', async (t) => {
  const { line } = await open(t)
  const slow = line.query('select pg_sleep(0.6)')
  assert.equal(line.ready, true)
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(line.ready, false)
  const behind = line.query(add, [1, 'a'])
  await slow
  await behind
  assert.equal(line.ready, true)
})
