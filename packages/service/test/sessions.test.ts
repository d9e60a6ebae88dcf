import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sessionTag } from '../src/admission/admit.ts'
import { eventually } from './broker-site.fixture.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { type Answer, migratedFolder, type ServeProcess, serviceFolder, startServe } from './serve.fixture.ts'

const config = JSON.stringify({ runtimes: { pool: false } })

const session = (serve: ServeProcess, args: object): Promise<Answer> =>
  serve.post('/v1/calls', { tool: 'code:session', args, waitMs: 20_000 })

test('a session keeps its state across calls and a reload, and the service logs the sessions that end with it', async (t) => {
  const folder = await migratedFolder(t)
  writeFileSync(join(folder, 'gantry.config.json'), config)
  const serve = startServe(t, folder)
  await serve.ready
  const opened = (await session(serve, { action: 'open', language: 'python' })).value
  assert.equal(opened.status, 'ok', JSON.stringify(opened))
  const { session: id } = opened.output
  assert.match(id, /^[0-9a-f]{12}\.[\w-]{32}$/)
  await session(serve, { action: 'run', session: id, code: 'x = 41' })
  serve.child.kill('SIGHUP')
  await eventually(async () => serve.printed.err.includes('configuration reloaded') || undefined, 'the reload')
  assert.equal((await session(serve, { action: 'run', session: id, code: 'print(x + 1)' })).value.output.stdout, '42\n')
  const elsewhere = await session(serve, { action: 'run', session: `0123456789ab.${id.slice(13)}`, code: '1' })
  assert.equal(elsewhere.status, 400)
  assert.match(elsewhere.value.error.message, /worker that owned it was lost/)
  assert.equal(await serve.stop(), 0)
  assert.match(serve.printed.err, /"sessions":1,"msg":"sessions of code:session end with this process"/)
})

test('with several workers a call is routed to the worker that has its session, and fails once that worker has stopped', async (t) => {
  const { url } = await postgresDatabase(t)
  const start = (): ServeProcess => {
    const folder = serviceFolder(t)
    writeFileSync(join(folder, 'gantry.config.json'), config)
    return startServe(t, folder, { environment: { DATABASE_URL: url } })
  }
  const [one, two] = [start(), start()]
  await Promise.all([one.ready, two.ready])
  const { session: id } = (await session(one, { action: 'open', language: 'python' })).value.output
  await session(one, { action: 'run', session: id, code: 'n = 0' })
  for (const [index, serve] of [two, one, two, two].entries()) {
    const { value } = await session(serve, { action: 'run', session: id, code: 'n += 1\nprint(n)' })
    assert.equal(value.output?.stdout, `${index + 1}\n`, JSON.stringify(value))
  }
  const { items } = (await one.get('/v1/workers')).value
  const holder = items.find(({ worker }: { worker: string }) => sessionTag(worker) === id.slice(0, 12))
  const [had, other] = holder.pid === one.child.pid ? [one, two] : [two, one]
  await had.stop()
  const { status, value } = await session(other, { action: 'run', session: id, code: 'print(n)' })
  assert.deepEqual([status, value.error.code], [400, 'INPUT_INVALID'])
  assert.match(value.error.message, /ended, because the worker that owned it was lost/)
})
