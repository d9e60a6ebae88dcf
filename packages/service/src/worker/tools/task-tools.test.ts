import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type CallView, type ErrorInfo, type Identity, ToolError } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { stub } from '../../stub.fixture.ts'
import { taskTools } from './task-tools.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
const thrown: ErrorInfo = {
  code: 'BACKEND_FAILED',
  message: 'secret path /etc/x',
  stage: 'execute',
  retryable: false,
  effect: 'possible',
  cause: { name: 'OSError', message: 'secret path /etc/x' },
  exception: true,
}

/** Checks the one call of the test, which ended with the error. */
async function ask(t: TestContext, error: ErrorInfo, { errorText = false, identity = ada } = {}) {
  const result = { status: 'failed', output: null, error }
  const view = stub<CallView>({ callId: 'c-1', tool: 'demo:slow', principal: 'ada', result })
  const executor = createExecutor({ tools: taskTools({ get: async () => view }, { errorText }) })
  t.after(() => executor.close())
  return executor.run('tasks:check_task', { task_id: 'c-1' }, { identity })
}

test('check_task shows the class of an exception, and its text only when the settings allow it', async (t) => {
  const plain = await ask(t, thrown)
  const error = { code: 'BACKEND_FAILED', message: "Tool 'demo:slow' raised OSError on the tools service." }
  assert.deepEqual(plain.output, { task_id: 'c-1', tool: 'demo:slow', status: 'failed', error })
  assert.doesNotMatch(JSON.stringify(plain), /secret/)
  assert.match(JSON.stringify((await ask(t, thrown, { errorText: true })).output), /secret path/)
})

test('check_task shows the message of a Gantry error, and no call of another user', async (t) => {
  const { code, message, stage, retryable, effect } = new ToolError('TIMEOUT', 'It took too long.')
  const { output } = await ask(t, { code, message, stage, retryable, effect })
  assert.deepEqual((output as { error: object }).error, { code: 'TIMEOUT', message: 'It took too long.' })
  const foreign = await ask(t, thrown, { identity: { ...ada, principal: 'bob' } })
  assert.equal(foreign.error?.code, 'NOT_FOUND')
})
