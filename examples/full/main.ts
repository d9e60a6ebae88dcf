// A small support team: policy, approval, audit, secrets, events, a chain and a toolset around three tools.
import { createExecutor, defineTool, type Identity, memoryAudit, memorySecrets } from 'gantry'
import * as z from 'zod'

const findOrder = defineTool({
  namespace: 'orders',
  name: 'find',
  description: 'Finds an order by its number.',
  tags: ['support'],
  effect: 'read',
  inputSchema: z.object({ order: z.coerce.number().int().positive() }),
  run: ({ order }) => ({ order, customer: 'ada', paid: 40 }),
})
const refund = defineTool({
  namespace: 'orders',
  name: 'refund',
  description: 'Pays money back to a customer.',
  tags: ['support', 'money'],
  permissions: ['orders:write'],
  secrets: ['BANK_KEY'],
  inputSchema: z.object({ order: z.number(), amount: z.number().positive() }),
  run({ order, amount }, { secrets, log }) {
    log(`signing with ${secrets.BANK_KEY}`)
    return { order, refunded: amount, receipt: `signed by ${secrets.BANK_KEY}` }
  },
})
const purge = defineTool({
  namespace: 'orders',
  name: 'purge',
  description: 'Deletes an order for good.',
  permissions: ['orders:admin'],
  inputSchema: z.object({ order: z.number() }),
  run: () => ({ purged: true }),
})

const audit = memoryAudit()
const gantry = createExecutor({
  tools: [findOrder, refund, purge],
  policy: {
    rules: [
      { allow: 'orders:*', roles: ['agent'] },
      { ask: 'orders:refund', reason: 'A refund needs approval.' },
      { deny: 'orders:*', tenants: ['closed-shop'], reason: 'The shop is closed.' },
    ],
  },
  approver: {
    // A real approver would ask a person; this one approves small sums.
    approve: async ({ args }) =>
      Number(args.amount) <= 50 ? { approved: true, by: 'grace' } : { approved: false, reason: 'too much' },
  },
  audit,
  secrets: memorySecrets({ BANK_KEY: 'k-3f9a77' }),
})
gantry.on('call:reported', ({ tool, report }) => {
  if (report.kind === 'log') console.log(`[event] ${tool} says: ${report.message}`)
})
gantry.on('call:finished', ({ result, identity }) => {
  console.log(`[event] ${identity.principal} ${result.tool?.id} ${result.status} ${result.error?.code ?? ''}`.trimEnd())
})

const agent: Identity = { principal: 'bot-1', tenant: 'shop', permissions: ['orders:write'], roles: ['agent'] }

console.log('What the agent may see:')
const { items } = await gantry.search('orders', { identity: agent, toolset: { tags: ['support'] } })
console.log(' ', items.map(({ id }) => id).sort())

console.log('A chain: find the order, refund what was paid.')
const steps = [
  { id: 'order', tool: 'orders:find', args: { order: '17' } },
  { id: 'refund', tool: 'orders:refund', args: { order: '{{prev.order}}', amount: '{{prev.paid}}' } },
]
const chain = await gantry.chain(steps, { identity: agent })
console.log(' ', chain.status, chain.output)

console.log('A refund that is too large, a tool beyond the permissions, a closed tenant, a caller without a role:')
const calls = [
  await gantry.run('orders:refund', { order: 17, amount: 500 }, { identity: agent }),
  await gantry.run('orders:purge', { order: 17 }, { identity: agent }),
  await gantry.run('orders:find', { order: 17 }, { identity: { ...agent, tenant: 'closed-shop' } }),
  await gantry.run('orders:find', { order: 17 }, { identity: { principal: 'eve', tenant: 'shop', permissions: [] } }),
]
for (const { error } of calls) console.log(`  ${error?.code}: ${error?.message}`)

console.log('The audit trail of the refunds:')
for (const record of audit.records()) {
  if (!record.tool.startsWith('orders:refund')) continue
  if (record.phase === 'start')
    console.log('  start', record.principal, record.args, `approved by ${record.approvedBy}`)
  else console.log('  end  ', record.principal, record.status, record.code ?? '')
}

await gantry.close()
