import { isObject } from '@gantry/contract/internal/json'
import type { Adapter } from './adapter.ts'
import { listOf, member, readCalls } from './calls.ts'
import { checkOpenAi, type OpenAiOptions, openAiParameters, undoStrict } from './openai-tools.ts'
import type { Node } from './reduce.ts'
import { render, textOf } from './render.ts'
import { readTools, writeTools } from './tools.ts'

/** A tool of the Chat Completions API. */
export interface OpenAiChatTool {
  type: 'function'
  function: { name: string; description: string; parameters: Node; strict: boolean }
}

/** The result of one call for the Chat Completions API, which takes texts only. */
export interface OpenAiChatResult {
  role: 'tool'
  tool_call_id: string
  content: string
}

/** OpenAI's Chat Completions: `calls` takes the assistant's message with its `tool_calls`. */
export function openaiChat(options: OpenAiOptions = {}): Adapter<OpenAiChatTool[], OpenAiChatResult> {
  checkOpenAi('openaiChat', options)
  const { strict = false, clean = true, maxChars } = options
  return {
    format: 'openai-chat',
    tools(entries) {
      const written = writeTools(entries, { format: 'OpenAI', clean, fields: [] }, (shown, report): OpenAiChatTool => {
        const { name, description, inputSchema } = shown
        return { type: 'function', function: { name, description, ...openAiParameters(inputSchema, strict, report) } }
      })
      return { ...written, tools: [...written.tools] }
    },
    read: (tools, how = {}) =>
      readTools(tools, how, clean, (tool, report) => {
        if (tool.type !== 'function' || !isObject(tool.function)) {
          report({ path: '/type', keyword: 'type', done: 'dropped', message: 'Only functions can be tools.' })
          return undefined
        }
        const { name, description, parameters, ...rest } = tool.function
        return { name, description, inputSchema: parameters ?? {}, rest }
      }),
    calls: (message, names) =>
      readCalls(
        () =>
          listOf(member(message, 'tool_calls') ?? [], 'tool_calls').map((call) => ({
            id: member(call, 'id'),
            name: member(member(call, 'function'), 'name'),
            args: member(member(call, 'function'), 'arguments'),
          })),
        names,
        true,
        undoStrict(names, strict),
      ),
    result({ callId = '' }, outcome) {
      const { parts } = render(outcome, { maxChars, holds: () => false })
      return { role: 'tool', tool_call_id: callId, content: textOf(parts) }
    },
  }
}
