import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import { defineTool } from '@gantry/core/internal/tools/tool'
import { createExecutor } from '@gantry/tools'
import { generateText, isStepCount, jsonSchema, type ToolSet } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { aiSdk } from './ai-sdk.ts'

testAdapter('ai sdk', {
  create: (options) => aiSdk({ jsonSchema, ...options }),
  names: (tools) => Object.keys(tools),
  message: (calls) => ({
    role: 'assistant',
    content: [
      { type: 'text', text: 'Hm.' },
      ...calls.map(({ id, name, args }) => ({ type: 'tool-call', toolCallId: id, toolName: name, input: args })),
    ],
  }),
  readResult: ({ toolCallId, output }) => ({
    id: toolCallId,
    isError: output.type === 'error-text',
    text:
      output.type === 'content'
        ? output.value.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
        : output.value,
    images: output.type === 'content' ? output.value.filter(({ type }) => type === 'file').length : 0,
  }),
  argsAreText: false,
  hasIds: true,
  holdsImages: true,
})

const divide = defineTool({
  namespace: 'math',
  name: 'divide',
  description: 'Divides.',
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number', not: { const: 0 } } },
    required: ['a', 'b'],
    additionalProperties: false,
  },
  run: ({ a, b }) => ({ result: a / b }),
})

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

/** What a scripted model answers, one step after the other. */
function scripted(steps: readonly (string | { name: string; input: string }[])[]): MockLanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: steps.map((step, index) => ({
      content:
        typeof step === 'string'
          ? [{ type: 'text' as const, text: step }]
          : step.map(({ name, input }, at) => ({
              type: 'tool-call' as const,
              toolCallId: `call-${index}-${at}`,
              toolName: name,
              input,
            })),
      finishReason: { unified: typeof step === 'string' ? ('stop' as const) : ('tool-calls' as const), raw: undefined },
      usage,
      warnings: [],
    })),
  })
}

test('the real SDK sends the schema to the model, runs the tool and returns its result', async () => {
  const gantry = createExecutor({ tools: [divide] })
  const { tools, names } = aiSdk({ jsonSchema, run: gantry.run }).tools(gantry.tools().items)
  const set: ToolSet = tools
  const model = scripted([
    [
      { name: 'math__divide', input: '{"a":6,"b":0}' },
      { name: 'math__divide', input: '{"a":6,"b":3}' },
    ],
    'It is 2.',
  ])
  const { text } = await generateText({ model, tools: set, prompt: 'six by three', stopWhen: isStepCount(3) })
  assert.equal(text, 'It is 2.')
  const [first, second] = model.doGenerateCalls
  const [shown] = first?.tools ?? []
  assert.ok(shown?.type === 'function')
  assert.deepEqual(shown.inputSchema, names.find('math__divide')?.tool.inputSchema)
  const outputs = second?.prompt.flatMap((message) =>
    message.role === 'tool' ? message.content.map((part) => (part.type === 'tool-result' ? part.output : part)) : [],
  )
  assert.equal(outputs?.length, 2)
  const [wrong, right] = outputs ?? []
  assert.ok(wrong?.type === 'error-text' && /INPUT_INVALID[\s\S]*\/b /.test(wrong.value))
  assert.deepEqual(right, { type: 'text', value: '{"result":2}' })
  await gantry.close()
})

test('a tool that changed after the model saw it is not called', async () => {
  const gantry = createExecutor({ tools: [divide] })
  const { tools } = aiSdk({ jsonSchema, run: gantry.run }).tools(gantry.tools().items)
  gantry.update({ ...divide, tool: { ...divide.tool, description: 'Does something else.' } })
  const result = await tools.math__divide?.execute?.({ a: 6, b: 3 }, {})
  assert.equal(result?.error?.code, 'CATALOG_STALE')
  await gantry.close()
})

test('an aborted generation cancels the call', async () => {
  const gantry = createExecutor({ tools: [divide] })
  const { tools } = aiSdk({ jsonSchema, run: gantry.run }).tools(gantry.tools().items)
  const result = await tools.math__divide?.execute?.({ a: 6, b: 3 }, { abortSignal: AbortSignal.abort() })
  assert.equal(result?.status, 'cancelled')
  await gantry.close()
})

test('without `run` the tools have no execute function, and an image becomes a file', () => {
  const { tools } = aiSdk({ jsonSchema }).tools([entryOf()])
  assert.equal(tools.math__add?.execute, undefined)
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' } as const
  assert.deepEqual(tools.math__add?.toModelOutput({ output: resultOf({ content: [image] }) }), {
    type: 'content',
    value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } }],
  })
})
