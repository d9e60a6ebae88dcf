import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAdapter } from '@gantry/conformance/internal/adapter'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import type OpenAI from 'openai'
import { openaiResponses } from './openai-responses.ts'

testAdapter('openai responses', {
  create: (options) => openaiResponses(options),
  names: (tools) => tools.map((tool) => tool.name),
  message: (calls) => ({
    output: [
      { type: 'reasoning', summary: [] },
      ...calls.map(({ id, name, args }) => ({ type: 'function_call', id: 'fc', call_id: id, name, arguments: args })),
    ],
  }),
  readResult: ({ call_id, output }) => {
    const parts = typeof output === 'string' ? [{ type: 'input_text' as const, text: output }] : output
    return {
      id: call_id,
      text: parts.flatMap((part) => (part.type === 'input_text' ? [part.text] : [])).join('\n'),
      images: parts.filter(({ type }) => type === 'input_image').length,
    }
  },
  argsAreText: true,
  hasIds: true,
  holdsImages: true,
})

test('tools and results satisfy the types of the openai package', () => {
  const adapter = openaiResponses({ strict: true })
  const { tools, names } = adapter.tools([entryOf()])
  const request: Pick<OpenAI.Responses.ResponseCreateParams, 'tools'> = { tools }
  const item: OpenAI.Responses.ResponseFunctionToolCall = {
    type: 'function_call',
    call_id: 'call_1',
    name: 'math__add',
    arguments: '{"a":1}',
  }
  const [call] = adapter.calls(item, names)
  assert.ok(call?.ok)
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' } as const
  const reply: OpenAI.Responses.ResponseInputItem.FunctionCallOutput = adapter.result(
    call,
    resultOf({ content: [image] }),
  )
  assert.deepEqual(reply, {
    type: 'function_call_output',
    call_id: 'call_1',
    output: [{ type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' }],
  })
  assert.equal(request.tools?.length, 1)
})
