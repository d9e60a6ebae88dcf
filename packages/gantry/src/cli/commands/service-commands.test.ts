import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { startServiceRig } from '../service.fixture.ts'

const letter = {
  id: 'l1',
  callId: 'c1',
  source: 'postgres',
  reason: 'Three workers died with \u001b[2Jit.',
  code: 'DELIVERY_EXHAUSTED',
  tool: 'demo:add',
  payload: { kind: 'call', tool: 'demo:add', args: { a: 1, b: 2 } },
  deliveries: 3,
  createdAt: '2026-01-01T00:00:00.000Z',
} as const

test('calls lists calls in pages, all or filtered', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  assert.equal((await gantry(['calls'])).out, 'No calls.\n')
  for (const b of [1, 2, 3]) await gantry(['run', 'demo:add', `{"a":1,"b":${b}}`])
  await gantry(['run', 'demo:fail', '{"message":"no"}'])
  const { values } = await json(['calls', '--limit', '3'])
  assert.deepEqual([values[0].items.length, typeof values[0].cursor], [3, 'string'])
  const rest = await json(['calls', '--limit', '3', '--cursor', values[0].cursor])
  assert.equal(rest.values[0].items.length, 1)
  const failed = await json(['calls', '--state', 'failed', '--tool', 'demo:fail'])
  assert.deepEqual(
    failed.values[0].items.map((call: { state: string }) => call.state),
    ['failed'],
  )
  const { out } = await gantry(['calls', '--limit', '3'])
  assert.match(out, /^call +state +tool +created +by\n[0-9a-f-]{36} {2}ok +demo:add +20/)
  assert.match(out, /\nMore: --cursor 3\n$/)
})

test('call shows the state of a call, and its outcome once it has one', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  const { values } = await json(['run', 'demo:fail', '{"message":"bad \\u001b[31mluck"}'])
  const { callId } = values[0]
  const shown = await gantry(['call', callId])
  assert.equal(shown.code, 0, 'it was shown; how it ended is another matter')
  assert.match(shown.out, /^call: .*\ntool: demo:fail\nstate: failed\nby: owner\n/)
  assert.match(
    shown.out,
    /^ended in stage: execute, after lookup, validate-input, authorize, resolve$/m,
    'with the stages before it',
  )
  assert.match(shown.out, /BACKEND_FAILED: bad \\e\[31mluck/)
  assert.equal((await json(['call', callId])).values[0].result.status, 'failed')
  const missing = await json(['call', 'nothing'])
  assert.deepEqual([missing.code, missing.values[0].error.code], [2, 'NOT_FOUND'])
})

test('call --follow prints the events to the end and exits with the code of the outcome', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  const identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  const countdown = { kind: 'call', tool: 'demo:countdown', args: { from: 2, delayMs: 5 } } as const
  const { callId } = await service.submit(countdown, identity)
  const followed = await json(['call', callId, '--follow'])
  assert.deepEqual([followed.code, followed.values.at(-1).kind], [0, 'done'])
  assert.equal((await gantry(['call', callId, '-f'])).out, '2\n1\n{\n  "counted": 2\n}\n')
  const fail = await service.submit({ kind: 'call', tool: 'demo:fail', args: { message: 'no' } }, identity)
  assert.equal((await gantry(['call', fail.callId, '--follow'])).code, 1)
})

test('aborting call --follow does not cancel the call', async (t) => {
  const { json, service } = await startServiceRig(t)
  const identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  const { callId } = await service.submit({ kind: 'call', tool: 'demo:sleep', args: { ms: 60_000 } }, identity)
  const stop = new AbortController()
  const followed = json(['call', callId, '--follow'], { signal: stop.signal })
  while (service.readers === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  stop.abort(new ToolError('CANCELLED', 'The process received SIGINT.'))
  assert.equal((await followed).code, 6)
  assert.equal((await service.call(callId, identity)).state, 'running')
})

test('cancel cancels a call, and reports a call that has already ended', async (t) => {
  const { gantry, service } = await startServiceRig(t)
  const identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  const { callId } = await service.submit({ kind: 'call', tool: 'demo:sleep', args: { ms: 60_000 } }, identity)
  const cancelled = await gantry(['cancel', callId])
  assert.deepEqual([cancelled.code, cancelled.out], [0, `${callId} is asked to cancel.\n`])
  assert.equal((await gantry(['call', callId, '--follow'])).code, 6)
  assert.equal((await gantry(['cancel', callId])).out, `${callId} is cancelled.\n`)
  const quick = await service.submit({ kind: 'call', tool: 'demo:add', args: { a: 1, b: 1 } }, identity)
  await gantry(['call', quick.callId, '--follow'])
  assert.equal((await gantry(['cancel', quick.callId])).out, `${quick.callId} had ended already: ok.\n`)
})

test('dlq lists, shows, redrives and discards dead letters', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  assert.equal((await gantry(['dlq', 'ls'])).out, 'No dead letters.\n')
  service.deadLetterRows.push(letter)
  const { out } = await gantry(['dlq', 'ls'])
  assert.match(out, /l1 +waits +demo:add +DELIVERY_EXHAUSTED +2026-\S+ +Three workers died with \\e\[2Jit\.\n$/)
  assert.equal((await json(['dlq', 'ls'])).values[0].items[0].id, 'l1')
  assert.match((await gantry(['dlq', 'show', 'l1'])).out, /^letter: l1\nstate: waits\n[\s\S]*"args": \{\n/)
  const redriven = await json(['dlq', 'redrive', 'l1'])
  assert.deepEqual([redriven.code, service.ran], [0, ['demo:add {"a":1,"b":2}']])
  const again = await gantry(['dlq', 'redrive', 'l1'])
  assert.match(again.out, new RegExp(`^Submitted again as ${redriven.values[0].callId}; gantry call`))
  assert.deepEqual((await json(['dlq', 'discard', 'l1'])).values, [{ discarded: 'l1' }])
  assert.equal((await gantry(['dlq', 'discard', 'l1'])).out, 'Discarded l1.\n')
  assert.equal((await gantry(['dlq', 'show', 'l2'])).code, 2)
})

test('workers lists the processes of the service', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  assert.equal((await json(['workers'])).values[0].items[0].worker, 'w1')
  assert.match((await gantry(['workers'])).out, /^worker .*\nw1 +ready +api,worker +0\/4 /)
})

test('a command that needs a service is refused with a remedy when no service is found', async (t) => {
  const { json, gantry, folder } = await startServiceRig(t)
  rmSync(join(folder, '.gantry'), { recursive: true })
  const lines = [['calls'], ['call', 'x'], ['cancel', 'x'], ['dlq', 'ls'], ['dlq', 'show', 'x'], ['workers']]
  for (const line of lines) {
    const { code, values } = await json(line)
    assert.deepEqual([code, values[0].error.code], [5, 'SERVICE_UNAVAILABLE'], line.join(' '))
  }
  const { err } = await gantry(['calls'])
  assert.match(
    err,
    /No service runs on .*\.gantry\. gantry login, or GANTRY_URL and GANTRY_KEY, name one that runs elsewhere\.\n/,
  )
  assert.match(err, /`gantry serve`/)
})
