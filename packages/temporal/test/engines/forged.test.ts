import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type AskedApproval, clientOf } from '@gantry/temporal'
import { decideSignal, type WorkDocument, workWorkflow } from '@gantry/temporal/internal/protocol/work'
import { WorkflowFailedError } from '@temporalio/client'
import { newTarget } from './temporal.fixture.ts'
import { startWork, type WorkBench } from './work.fixture.ts'

const caller = { principal: 'ann', tenant: 'acme', permissions: ['book'] }
let opened: Promise<WorkBench> | undefined
const bench = (): Promise<WorkBench> => {
  opened ??= startWork()
  return opened
}
after(async () => (await opened)?.close())

/** Clients that may write to the namespace, without a key and with one of their own. */
function strangers({ target }: WorkBench) {
  const { payloadKeys: own } = newTarget()
  return [
    { what: 'without a key', client: clientOf({ ...target, payloadKeys: [] }) },
    { what: 'with another key', client: clientOf({ ...target, payloadKeys: own }) },
  ]
}

async function askedOf({ engine }: WorkBench, id: string): Promise<AskedApproval> {
  for (;;) {
    const [asked] = await engine.approvals(id).catch(() => [])
    if (asked !== undefined) return asked
    await delay(50)
  }
}

test('work that was not sealed with the key of the worker is refused, whatever identity it names', async () => {
  const started = await bench()
  for (const { what, client } of strangers(started)) {
    const document: WorkDocument = {
      kind: 'chain',
      id: 'forged',
      identity: { principal: 'root', tenant: 'acme', permissions: ['*'] },
      seed: 1,
      heartbeatMs: 10_000,
      body: { steps: [{ id: 'one', tool: 'sum:book', args: { a: 1 } }], input: null, limits: {} },
    }
    const temporal = await client.get()
    const run = temporal.workflow.execute(workWorkflow, {
      workflowId: `forged-${what}-${Date.now()}`,
      taskQueue: `${started.target.taskQueue}-calls`,
      args: [document],
    })
    await assert.rejects(run, (error) => error instanceof WorkflowFailedError, what)
    await client.close()
  }
  assert.deepEqual(started.ledger, [])
})

test('a decision that was not sealed for its work does not count, and does not stop the work', async () => {
  const started = await bench()
  const { gantry, engine, ledger, target } = started
  const [callId, otherId] = [`decided-${Date.now()}`, `other-${Date.now()}`]
  const code = 'return await tools.sum.pay({ a: 9 })'
  const options = { engine: 'temporal', identity: caller, language: 'javascript' } as const
  const running = gantry.code(code, { ...options, callId })
  const other = gantry.code(code, { ...options, callId: otherId })
  const { approvalId } = await askedOf(started, callId)
  const forged = { approvalId, approved: true, by: 'mallory' }
  for (const { client } of strangers(started)) {
    const temporal = await client.get()
    await temporal.workflow.getHandle(`gantry-${callId}`).signal(decideSignal, forged)
    await temporal.workflow.getHandle(`gantry-${callId}`).signal(decideSignal)
    await client.close()
  }
  // The genuine decision on another work, copied byte for byte.
  const asked = await askedOf(started, otherId)
  await engine.decide(otherId, { approvalId: asked.approvalId, approved: true, by: 'bob' })
  assert.equal((await other).error, undefined)
  assert.deepEqual(ledger.splice(0), ['pay 9'])
  const plain = clientOf(target)
  const temporal = await plain.get()
  const { namespace } = target
  const { history } = await temporal.workflow
    .getHandle(`gantry-${otherId}`)
    .fetchHistory()
    .then((found) => ({ history: found }))
  const signal = history.events?.find((event) => event.workflowExecutionSignaledEventAttributes != null)
  const input = signal?.workflowExecutionSignaledEventAttributes?.input
  assert.ok(input != null)
  await temporal.workflowService.signalWorkflowExecution({
    namespace,
    workflowExecution: { workflowId: `gantry-${callId}` },
    signalName: decideSignal,
    input,
  })
  await plain.close()
  assert.deepEqual(
    (await engine.approvals(callId)).map((one) => one.approvalId),
    [approvalId],
    'it still waits',
  )
  await engine.decide(callId, { approvalId, approved: false, by: 'bob', reason: 'no' })
  assert.equal((await running).error?.code, 'CODE_FAILED')
  assert.deepEqual(ledger, [])
})

test('the history of a work holds no argument, output, code or identity in plain text', async () => {
  const { gantry, target } = await bench()
  const callId = `sealed-${Date.now()}`
  const code = 'const marker = "canary-4711"; return { marker, sum: await tools.sum.add({ a: 40414, b: 1 }) }'
  const { error } = await gantry.code(code, { engine: 'temporal', identity: caller, language: 'javascript', callId })
  assert.equal(error, undefined)
  const client = clientOf({ ...target, payloadKeys: [] })
  const history = await (await client.get()).workflow.getHandle(`gantry-${callId}`).fetchHistory()
  await client.close()
  const bytes = JSON.stringify(history, (_, value) =>
    value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
  )
  assert.ok(bytes.includes('sum:add'), 'the names of tools are shown')
  for (const text of ['canary-4711', '40414', 'acme', '"ann"', '"principal"']) assert.ok(!bytes.includes(text), text)
})
