import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { builtinTools } from '@gantry/tools'
import { pgliteDatabase } from './databases.fixture.ts'
import { openLimitedSite } from './limits.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'

const large = sampleTool({
  namespace: 't',
  name: 'large',
  description: 'Gives what it is given, in capitals.',
  run: ({ count }) => 'X'.repeat(Number(count)),
})

test('large arguments, large results and files count against the storage quota, which a reload can lift', async (t) => {
  const database = (await pgliteDatabase(t)).asService()
  const tenants = { acme: { stored: { bytes: 160_000 }, principals: { '*': { stored: { bytes: 160_000 } } } } }
  const site = await openLimitedSite(t, { database, tenants, tools: [large, ...builtinTools()] })
  const ann: Identity = { tenant: 'acme', principal: 'ann', permissions: ['*'] }
  const eve: Identity = { tenant: 'other', principal: 'eve', permissions: ['*'] }
  const run = async (tool: string, args: object, who = ann): Promise<string> => {
    try {
      const { callId } = await site.service.submit({ kind: 'call', tool, args: args as never }, who)
      const result = await site.service.wait(callId, who, 30_000, new AbortController().signal)
      return result?.error?.code ?? result?.status ?? 'none'
    } catch (error) {
      return ToolError.is(error) ? error.code : String(error)
    }
  }
  assert.equal(await run('t:large', { count: 70_000 }), 'ok')
  assert.equal(await run('files:put', { name: 'a.txt', content: 'y'.repeat(20_000) }), 'ok')
  const [used] = await database.query(`select bytes::int, files::int from stored_usage where principal = 'ann'`)
  assert.deepEqual(used, { bytes: 90_000, files: 2 })
  assert.equal(await run('t:large', { count: 80_000 }), 'RESULT_TOO_LARGE', 'a result')
  assert.equal(await run('t:large', { count: 1, padding: 'z'.repeat(80_000) }), 'LIMIT_EXCEEDED', 'arguments')
  assert.equal(await run('t:large', { count: 1, padding: 'z'.repeat(60_000) }), 'ok', 'what needs no file')
  assert.equal(await run('files:put', { name: 'b.txt', content: 'y'.repeat(60_000) }), 'ok')
  assert.equal(await run('files:put', { name: 'c.txt', content: 'w'.repeat(60_000) }), 'LIMIT_EXCEEDED', 'a file')
  assert.equal(await run('t:large', { count: 80_000 }, eve), 'ok', 'another tenant')
  await site.limit({})
  assert.equal(await run('t:large', { count: 80_000 }), 'ok')
  const { text } = await site.service.metrics()
  assert.match(text, /^gantry_storage_refused_total\{scope="tenant"\} 3$/m)
})

test('the storage quota counts the content of files:put once, and nothing for rejected calls and repeats', async (t) => {
  const database = (await pgliteDatabase(t)).asService()
  const tenants = { acme: { stored: { bytes: 500_000 }, principals: { '*': { stored: { bytes: 500_000 } } } } }
  const site = await openLimitedSite(t, { database, tenants, tools: [large, ...builtinTools()] })
  const ann: Identity = { tenant: 'acme', principal: 'ann', permissions: ['*'] }
  const never = new AbortController().signal
  const run = async (tool: string, args: object, idempotencyKey?: string) => {
    const key = idempotencyKey === undefined ? {} : { idempotencyKey }
    const { callId } = await site.service.submit({ kind: 'call', tool, args: args as never, ...key }, ann)
    const result = await site.service.wait(callId, ann, 30_000, never)
    return { callId, code: result?.error?.code ?? result?.status }
  }
  const usage = async () =>
    (await database.query(`select bytes::int, files::int from stored_usage where principal = 'ann'`))[0]
  const put = (letter: string, bytes: number, key?: string) =>
    run('files:put', { name: 'a.txt', content: letter.repeat(bytes) }, key)

  const first = await put('x', 200_000)
  assert.equal(first.code, 'ok')
  assert.deepEqual(await usage(), { bytes: 200_000, files: 1 }, 'the file, and not its arguments')
  assert.equal((await put('x', 200_000)).code, 'ok')
  assert.deepEqual(await usage(), { bytes: 200_000, files: 2 }, 'the same content once')
  assert.equal((await put('y', 200_000)).code, 'LIMIT_EXCEEDED', 'the quota does not hold arguments and file together')
  assert.deepEqual(await usage(), { bytes: 200_000, files: 2 }, 'what was refused')
  await assert.rejects(site.service.replay(first.callId, ann, never), { code: 'INPUT_INVALID' })

  const padded = { count: 1, padding: 'z'.repeat(100_000) }
  const known = await run('t:large', padded, 'k')
  const before = await usage()
  assert.equal((await run('t:large', padded, 'k')).callId, known.callId)
  assert.deepEqual(await usage(), before, 'a repeat')
  assert.equal((await site.service.replay(known.callId, ann, never)).same, true, 'arguments of other tools stay')
})
