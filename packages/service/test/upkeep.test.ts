import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pgliteDatabase } from './databases.fixture.ts'
import { failingDatabase } from './failing-store.fixture.ts'
import { echo, openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal

test('after a failed upkeep on the embedded database, delayed calls and sleeping programs run without a restart', {
  timeout: 60_000,
}, async (t) => {
  const { database, fail, refused } = failingDatabase(await pgliteDatabase(t))
  const { service } = await openServiceSite(t, async () => database, { tools: [echo] })
  const code = 'await sleep(2_001); return 1'
  const program = await service.submit({ kind: 'call', tool: 'code:program', args: { code } }, operator)
  while ((await service.call(program.callId, operator)).state !== 'delayed') {
    t.signal.throwIfAborted()
    await new Promise(setImmediate)
  }
  const delayed = await service.submit({ kind: 'call', tool: 'test:echo', args: {}, delayMs: 100 }, operator)

  fail('all')
  await refused('recursive expired')
  fail('nothing')

  for (const { callId } of [delayed, program])
    assert.equal((await service.wait(callId, operator, 20_000, never))?.status, 'ok')
})
