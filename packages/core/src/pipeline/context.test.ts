import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolContext } from '../backends/backend.ts'
import { createExecutor } from '../executor.ts'
import { tool } from './pipeline.fixture.ts'

test('the functions of a tool context work when destructured', async () => {
  const gantry = createExecutor({
    tools: [
      tool((_args, { progress, log, send, callId, tool: id, identity }) => {
        progress({ progress: 1, total: 2, message: 'half' })
        log('warn', 'careful', { n: 1 })
        log('plain')
        send({ hello: 'world' })
        return { callId, id, principal: identity.principal }
      }),
    ],
  })
  const events = []
  for await (const event of gantry.stream('test:it', {}, { callId: 'c-1' })) events.push(event)
  const [progress, warn, plain, done] = events
  assert.deepEqual(progress, { kind: 'progress', progress: 1, total: 2, message: 'half', id: 1, callId: 'c-1' })
  assert.deepEqual(warn, { kind: 'log', level: 'warn', message: 'careful', data: { n: 1 }, id: 2, callId: 'c-1' })
  assert.equal(plain?.kind === 'log' && plain.level, 'info')
  assert.ok(done?.kind === 'done')
  assert.deepEqual(done.result.output, { callId: 'c-1', id: 'test:it:1.0.0', principal: 'local' })
  assert.deepEqual(done.result.effects, [{ kind: 'message', message: { hello: 'world' } }])
})

test('invalid progress or log values do not fail a tool; messages that are not JSON or too many do', async () => {
  const careless = tool((_args, { progress, log }) => {
    progress(Number.NaN)
    log('odd', 5n as never)
    return 'fine'
  })
  assert.equal((await createExecutor({ tools: [careless] }).run('test:it')).output, 'fine')
  const sending = tool((_args, { send }) => send({ n: 5n } as never))
  const refused = await createExecutor({ tools: [sending] }).run('test:it')
  assert.equal(refused.error?.code, 'OUTPUT_INVALID')
  const flooding = tool((_args, { send }) => {
    for (let n = 0; n < 2_000; n++) send(n)
  })
  const flooded = await createExecutor({ tools: [flooding] }).run('test:it')
  assert.equal(flooded.error?.code, 'LIMIT_EXCEEDED')
  assert.equal(flooded.effects.length, 1_000)
})

test('the signal of a context is aborted when it is first read after the call has ended', async () => {
  const kept: ToolContext[] = []
  const gantry = createExecutor({ tools: [tool((_args, context) => void kept.push(context))] })
  await gantry.run('test:it')
  assert.equal(kept[0]?.signal.aborted, true)
})
