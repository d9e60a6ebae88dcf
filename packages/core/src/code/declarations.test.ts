import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createExecutor } from '@gantry/tools'
import { defineTool } from '../tools/tool.ts'

const tool = (namespace: string, name: string, description: string) =>
  defineTool({
    namespace,
    name,
    description,
    effect: 'read',
    inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
    run: ({ id }) => ({ id }),
  })
const hidden = { ...tool('shop', 'delete_orders', 'Deletes orders.') }
const gantry = createExecutor({
  tools: [tool('shop', 'list_orders', 'Lists orders.'), tool('my-ns', 'odd.name', 'Weighs parcels.'), hidden],
  policy: { rules: [{ deny: 'shop:delete_orders' }], default: 'allow' },
})
after(() => gantry.close())

test('declarations cover the tools that match the query and are visible to the caller', async () => {
  const orders = await gantry.declarations('orders')
  assert.match(
    orders,
    /readonly shop: \{\n {4}\/\*\* Lists orders\. \*\/\n {4}list_orders\(args: \{ id: string \}\): Promise<any>/,
  )
  assert.ok(!orders.includes('odd.name') && !orders.includes('delete_orders'))
  assert.match(await gantry.declarations('parcels', { limit: 1 }), /readonly "my-ns": \{\n.*\n {4}"odd\.name"\(args/)
})

test('a program can read the declaration of a tool, and the check knows only the tools of its caller', async () => {
  const read = await gantry.code("return (await describe('shop:list_orders', { level: 'types' })).declaration")
  assert.match(String(read.output), /list_orders\(args: \{ id: string \}\)/)
  const right = await gantry.code("return (await tools['my-ns']['odd.name']({ id: 'a' })).id", { check: true })
  assert.deepEqual([right.status, right.output], ['ok', 'a'], JSON.stringify(right.error))
  const denied = await gantry.code("await tools.shop.delete_orders({ id: 'a' })", { check: true })
  assert.deepEqual([denied.error?.code, denied.program?.calls], ['CODE_INVALID', []])
  assert.ok(!JSON.stringify(denied.error).includes('args: { id'), 'no signature of what is not shown')
})
