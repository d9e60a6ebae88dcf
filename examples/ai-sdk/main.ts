// Gantry's tools in Vercel's AI SDK: generateText runs them through the executor. The model is the SDK's own mock.

import { generateText, isStepCount, jsonSchema } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { aiSdk, createExecutor, defineTool } from 'gantry'

const stock = new Map([
  ['apple', 3],
  ['pear', 0],
])
const gantry = createExecutor({
  tools: [
    defineTool({
      namespace: 'shop',
      name: 'stock',
      description: 'How many pieces of a fruit are left.',
      effect: 'read',
      inputSchema: { type: 'object', properties: { fruit: { type: 'string' } }, required: ['fruit'] },
      run: ({ fruit }) => ({ fruit, left: stock.get(fruit) ?? 0 }),
    }),
    defineTool({
      namespace: 'shop',
      name: 'buy',
      description: 'Buys pieces of a fruit.',
      inputSchema: {
        type: 'object',
        properties: { fruit: { type: 'string' }, pieces: { type: 'integer', minimum: 1, maximum: 10 } },
        required: ['fruit', 'pieces'],
      },
      run: ({ fruit, pieces }) => `Bought ${pieces} × ${fruit}.`,
    }),
  ],
})

const { tools } = aiSdk({ jsonSchema, run: gantry.run }).tools(gantry.tools().items)

const { text, steps } = await generateText({
  model: scripted([
    { toolName: 'shop__stock', input: { fruit: 'apple' } },
    { toolName: 'shop__buy', input: { fruit: 'apple', pieces: 'three' } },
    { toolName: 'shop__buy', input: { fruit: 'apple', pieces: 3 } },
    'You have three apples.',
  ]),
  tools,
  prompt: 'Buy all the apples.',
  stopWhen: isStepCount(6),
})

for (const { toolCalls, toolResults } of steps) {
  for (const call of toolCalls) console.log('model calls', call.toolName, JSON.stringify(call.input))
  for (const { toolName, output } of toolResults) {
    console.log('  reads:', tools[toolName]?.toModelOutput({ output }))
  }
}
console.log('model:', text)
await gantry.close()

/** A model that returns scripted answers. */
function scripted(script: readonly (string | { toolName: string; input: unknown })[]): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: script.map((step, index) => ({
      content: [
        typeof step === 'string'
          ? { type: 'text' as const, text: step }
          : {
              type: 'tool-call' as const,
              toolCallId: `call_${index}`,
              toolName: step.toolName,
              input: JSON.stringify(step.input),
            },
      ],
      finishReason: { unified: typeof step === 'string' ? ('stop' as const) : ('tool-calls' as const), raw: undefined },
      usage: {
        inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 0, text: 0, reasoning: 0 },
      },
      warnings: [],
    })),
  })
}
