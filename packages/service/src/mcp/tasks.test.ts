import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Presented } from '../http/authentication/authenticator.ts'
import { fakeService } from '../http/service.fixture.ts'
import { openMcp } from './mcp.fixture.ts'

const meta = {
  'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
}

test('a long call becomes a task for a client that supports tasks, and its result is available later', async (t) => {
  const { call, modern } = await openMcp(t, { taskAfterMs: 10 })
  const quick = await call('demo__sleep', { ms: 0 }, { meta })
  assert.equal(quick.result.resultType, 'complete')
  const { result: task } = await call('demo__sleep', { ms: 300 }, { meta })
  assert.deepEqual([task.resultType, task.status, task.ttlMs], ['task', 'working', null])
  let seen = (await modern('tasks/get', { taskId: task.taskId }, { meta })).messages[0]?.result
  while (seen.status === 'working') {
    seen = (await modern('tasks/get', { taskId: task.taskId }, { meta })).messages[0]?.result
  }
  assert.deepEqual([seen.resultType, seen.status, seen.result.isError], ['complete', 'completed', undefined])
  assert.equal(seen.result.content.length, 1)
})

test('a client that does not support tasks waits for its result', async (t) => {
  const { call, modern } = await openMcp(t, { taskAfterMs: 1 })
  assert.equal((await call('demo__sleep', { ms: 100 })).result.resultType, 'complete')
  const { response, messages } = await modern('tasks/get', { taskId: 'x' })
  assert.deepEqual([response.status, messages[0]?.error?.code], [400, -32_021])
})

test('a task can be cancelled by its owner, and is hidden from other callers', async (t) => {
  const { call, modern, otherKey } = await openMcp(t, { taskAfterMs: 1 })
  const { taskId } = (await call('demo__sleep', { ms: 60_000 }, { meta })).result
  for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update']) {
    const theirs = (await modern(method, { taskId }, { meta, key: otherKey })).messages[0]
    const none = (await modern(method, { taskId: 'never-was' }, { meta, key: otherKey })).messages[0]
    assert.equal(theirs?.error?.code, -32_602)
    assert.deepEqual(theirs?.error, none?.error)
  }
  assert.equal((await modern('tasks/get', { taskId }, { meta })).messages[0]?.result.status, 'working')
  const cancelled = (await modern('tasks/cancel', { taskId }, { meta })).messages[0]
  assert.equal(cancelled?.result.resultType, 'complete')
  let status = 'working'
  while (status === 'working') status = (await modern('tasks/get', { taskId }, { meta })).messages[0]?.result.status
  assert.equal(status, 'cancelled')
})

test('a task is hidden from another principal of the same tenant', async (t) => {
  const authenticate = async ({ headers }: Presented) => ({
    identity: { principal: headers.authorization ?? '', tenant: 'acme', permissions: ['*'] },
  })
  const { call, modern, session } = await openMcp(t, { taskAfterMs: 1 }, fakeService(), { authenticate })
  const { taskId } = (await call('demo__sleep', { ms: 60_000 }, { meta, key: 'alice' })).result
  const asked = async (key: string) => (await modern('tasks/get', { taskId }, { meta, key })).messages[0]
  assert.equal((await asked('alice'))?.result.status, 'working')
  assert.equal((await asked('bob'))?.error?.code, -32_602)
  assert.equal((await modern('tasks/cancel', { taskId }, { meta, key: 'bob' })).messages[0]?.error?.code, -32_602)
  assert.deepEqual((await (await session('bob')).request('tasks/list')).result.tasks, [])
  assert.equal((await (await session('alice')).request('tasks/list')).result.tasks.length, 1)
})

test('tasks of 2025-11-25 can be requested, listed, waited for and cancelled', async (t) => {
  const { session, otherKey } = await openMcp(t)
  const [open, other] = [await session(), await session(otherKey)]
  const asked = { name: 'demo__sleep', arguments: { ms: 50 }, task: { ttl: 60_000 } }
  const { task } = (await open.request('tools/call', asked)).result
  assert.equal(task.status, 'working')
  const result = (await open.request('tasks/result', { taskId: task.taskId })).result
  assert.deepEqual(result._meta['io.modelcontextprotocol/related-task'], { taskId: task.taskId })
  assert.equal((await open.request('tasks/get', { taskId: task.taskId })).result.status, 'completed')
  const long = (await open.request('tools/call', { ...asked, arguments: { ms: 60_000 } })).result.task
  assert.equal((await open.request('tasks/list')).result.tasks.length, 2)
  assert.deepEqual((await other.request('tasks/list')).result.tasks, [])
  assert.equal((await other.request('tasks/get', { taskId: long.taskId })).error?.code, -32_602)
  assert.equal((await open.request('tasks/cancel', { taskId: long.taskId })).result.status, 'cancelled')
  assert.equal((await open.request('tasks/cancel', { taskId: task.taskId })).error?.code, -32_602)
})
