// Programs over tools: loops, branches and parallel calls in plain code, one result, and the list of its calls.
import { createExecutor, defineTool } from 'gantry'

const stock = new Map([
  ['bolt', 12],
  ['nut', 0],
  ['washer', 3],
])
const level = defineTool({
  namespace: 'shop',
  name: 'level',
  description: 'How many pieces of an item are there.',
  effect: 'read',
  inputSchema: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
  run({ item }) {
    const count = stock.get(item)
    if (count === undefined) throw new Error(`there is no ${item}`)
    return { item, count }
  },
})
const order = defineTool({
  namespace: 'shop',
  name: 'order',
  description: 'Orders pieces of an item.',
  inputSchema: {
    type: 'object',
    properties: { item: { type: 'string' }, count: { type: 'integer', minimum: 1 } },
    required: ['item', 'count'],
  },
  run: ({ item, count }) => ({ ordered: `${count} × ${item}` }),
})

const gantry = createExecutor({ tools: [level, order] })

const program = `
  const items: string[] = ['bolt', 'nut', 'washer']
  const levels = await Promise.all(items.map((item) => tools.shop.level({ item })))
  const orders: string[] = []
  for (const { item, count } of levels) {
    print(item, count)
    if (count < 5) orders.push((await tools.shop.order({ item, count: 10 - count })).ordered)
  }
  return orders`

const { status, output, program: report } = await gantry.code(program)
console.log(status, output)
console.log(report?.printed.trim())
for (const { number, tool } of report?.calls ?? []) console.log(`  ${number} ${tool}`)

const careful = await gantry.code(`
  try {
    return await tools.shop.level({ item: 'cog' })
  } catch (error) {
    return { code: error.code, message: error.message }
  }`)
console.log(careful.output)

const wrong = await gantry.code('const level = await tools.shop.level({ item: "bolt" })\nreturn levl.count')
console.log(wrong.error?.code, wrong.error?.message)
console.log(wrong.error?.details?.frame)

const greedy = await gantry.code('for (;;) await tools.shop.level({ item: "nut" })', { limits: { toolCalls: 3 } })
console.log(greedy.error?.code, greedy.error?.details?.limit, greedy.program?.calls.length)

await gantry.close()
