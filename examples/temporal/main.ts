// Chains and programs on Temporal: a worker in this process, a chain, a program with an approval in it. Needs a server:
//   temporal server start-dev & TEMPORAL_ADDRESS=127.0.0.1:7233 node examples/temporal/main.ts
import { randomBytes } from 'node:crypto'
import { createWorkApprovals, openTarget, openTemporalEngine, startTemporalWorker } from '@gantry/temporal'
import { createExecutor, defineTool } from 'gantry'

const { TEMPORAL_ADDRESS: address } = process.env
if (address === undefined) {
  console.log('TEMPORAL_ADDRESS names no Temporal server.')
  process.exit(0)
}
const name = randomBytes(4).toString('hex')
const settings = { address, taskQueue: `example-${name}`, payloadKey: 'secret:temporal-key' }
const secrets = { 'temporal-key': randomBytes(32).toString('base64') }

// The worker has the tools, and decides on each call as the caller of the work.
const approvals = createWorkApprovals()
const amount = {
  type: 'object',
  properties: { amount: { type: 'integer' } },
  required: ['amount'],
} as const
const add = defineTool({
  namespace: 'shop',
  name: 'tax',
  description: 'The amount with tax.',
  effect: 'read',
  inputSchema: amount,
  run: ({ amount: net }) => ({ amount: Number(net) + 19 }),
})
const pay = defineTool({
  namespace: 'shop',
  name: 'pay',
  description: 'Pays an amount.',
  effect: 'once',
  approval: 'always',
  inputSchema: amount,
  run: ({ amount: paid }) => ({ paid }),
})
const executor = createExecutor({ tools: [add, pay], approver: approvals.approver })
const worker = await startTemporalWorker({
  target: await openTarget(settings, secrets),
  work: { executor, approvals },
})

// The process that hands work over needs no tools.
const engine = openTemporalEngine(settings, secrets)
const gantry = createExecutor({ engines: { temporal: engine } })
const identity = { principal: 'ann', tenant: 'acme', permissions: [] }

const steps = [
  { id: 'one', tool: 'shop:tax', args: { amount: '{{input}}' } },
  { id: 'two', tool: 'shop:tax', args: { amount: '{{prev.amount}}' } },
]
const chain = await gantry.chain(steps, { engine: 'temporal', identity, input: 100 })
console.log('a chain:', chain.status, chain.output)

const callId = `program-${name}`
const program = `
  const { amount } = await tools.shop.tax({ amount: 100 })
  return await tools.shop.pay({ amount })`
const running = gantry.code(program, { engine: 'temporal', identity, callId })
let asked = await engine.approvals(callId).catch(() => [])
while (asked.length === 0) {
  await new Promise((resolve) => setTimeout(resolve, 100))
  asked = await engine.approvals(callId).catch(() => [])
}
for (const { approvalId, tool, shown } of asked) {
  console.log('a call waits for approval:', tool, shown)
  await engine.decide(callId, { approvalId, approved: true, by: 'bob' })
}
const { status, output } = await running
console.log('a program:', status, output)

await gantry.close()
await worker.close()
await executor.close()
