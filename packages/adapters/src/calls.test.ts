import assert from 'node:assert/strict'
import { test } from 'node:test'
import { entryOf, resultOf } from '@gantry/conformance/internal/adapter-samples'
import { ToolError } from '@gantry/contract'
import { answerCalls } from './calls.ts'
import { openaiChat } from './openai-chat.ts'

const adapter = openaiChat()
const { names } = adapter.tools([entryOf()])
const call = (id: string, name: string, args: string) => ({ id, type: 'function', function: { name, arguments: args } })

test('answerCalls replies to every call in order, including invalid calls', async () => {
  const made: unknown[] = []
  const message = {
    tool_calls: [call('1', 'math__add', '{"a":1}'), call('2', 'math__ad', '{}'), call('3', 'math__add', '{"a":')],
  }
  const replies = await answerCalls(adapter, message, names, async (tool, args, { schemaDigest }) => {
    made.push([tool, args, schemaDigest])
    return resultOf({ output: 'done' })
  })
  assert.deepEqual(made, [['math:add:1.0.0', { a: 1 }, entryOf().digest]])
  assert.deepEqual(
    replies.map(({ tool_call_id, content }) => [tool_call_id, content.split(':')[0]]),
    [
      ['1', 'done'],
      ['2', 'Error TOOL_NOT_FOUND'],
      ['3', 'Error INPUT_INVALID'],
    ],
  )
})

test('answerCalls runs no call of an invalid message', async () => {
  const message = { tool_calls: [call('1', 'math__add', '{"a":1}'), call('1', 'math__add', '{"a":2}')] }
  const run = () => assert.fail('it ran')
  await assert.rejects(
    answerCalls(adapter, message, names, run),
    (error) => ToolError.is(error) && error.code === 'PAYLOAD_INVALID',
  )
})
