// One tool, four calls: a valid one, one with wrong arguments, one that times out, and one that throws.
import { setTimeout as delay } from 'node:timers/promises'
import { createExecutor, defineTool, ToolError } from 'gantry'

const divide = defineTool({
  namespace: 'math',
  name: 'divide',
  version: '1.0.0',
  description: 'Divides one number by another.',
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
    additionalProperties: false,
  },
  outputSchema: { type: 'object', properties: { result: { type: 'number' } }, required: ['result'] },
  run({ a, b }) {
    if (b === 0) throw new RangeError('cannot divide by zero')
    return { result: a / b }
  },
})

const wait = defineTool({
  namespace: 'math',
  name: 'ponder',
  description: 'Thinks for a minute.',
  effect: 'read',
  inputSchema: { type: 'object' },
  run: (_args, { signal }) => delay(60_000, 'done', { signal }),
})

const gantry = createExecutor({ tools: [divide, wait] })

const good = await gantry.run('math:divide', { a: 10, b: 4 })
console.log(good.status, good.output, good.tool?.version)

const wrong = await gantry.run('math:divide', { a: 'ten', c: 1 })
console.log(wrong.status, wrong.error?.code)
for (const issue of (wrong.error?.details?.issues ?? []) as { path: string; message: string }[]) {
  console.log(`  ${issue.path || '(the arguments)'} ${issue.message}`)
}

const late = await gantry.run('math:ponder', {}, { timeoutMs: 20 })
console.log(late.status, late.error?.message)

try {
  await gantry.runOrThrow('math:divide', { a: 1, b: 0 })
} catch (error) {
  if (!ToolError.is(error)) throw error
  console.log('thrown:', error.code, '-', error.message, '- cause:', (error.cause as Error).name)
}

const unknown = await gantry.run('math:divid', { a: 1, b: 1 })
console.log(unknown.error?.code, unknown.error?.details?.nearest)

await gantry.close()
