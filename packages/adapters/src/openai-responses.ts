import type { Adapter } from './adapter.ts'
import { listOf, member, readCalls } from './calls.ts'
import { checkOpenAi, type OpenAiOptions, openAiParameters, undoStrict } from './openai-tools.ts'
import type { Node } from './reduce.ts'
import { render } from './render.ts'
import { readTools, writeTools } from './tools.ts'

/** A tool of the Responses API. */
export interface OpenAiResponsesTool {
  type: 'function'
  name: string
  description: string
  parameters: Node
  strict: boolean
}

/** The result of one call for the Responses API. */
export interface OpenAiResponsesResult {
  type: 'function_call_output'
  call_id: string
  output: string | OpenAiOutputPart[]
}

export type OpenAiOutputPart =
  | { type: 'input_text'; text: string }
  | { type: 'input_image'; image_url: string; detail: 'auto' }

const imageTypes: readonly unknown[] = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

/** OpenAI's Responses: `calls` takes a response, its `output`, or one item of it. */
export function openaiResponses(options: OpenAiOptions = {}): Adapter<OpenAiResponsesTool[], OpenAiResponsesResult> {
  checkOpenAi('openaiResponses', options)
  const { strict = false, clean = true, maxChars } = options
  return {
    format: 'openai-responses',
    tools(entries) {
      const writing = { format: 'OpenAI', clean, fields: [] }
      const written = writeTools(entries, writing, (shown, report): OpenAiResponsesTool => {
        const { name, description, inputSchema } = shown
        return { type: 'function', name, description, ...openAiParameters(inputSchema, strict, report) }
      })
      return { ...written, tools: [...written.tools] }
    },
    read: (tools, how = {}) =>
      readTools(tools, how, clean, ({ type, name, description, parameters, ...rest }, report) => {
        if (type === 'function') return { name, description, inputSchema: parameters ?? {}, rest }
        report({ path: '/type', keyword: 'type', done: 'dropped', message: 'Only functions can be tools.' })
        return undefined
      }),
    calls: (message, names) =>
      readCalls(
        () =>
          itemsOf(message)
            .filter((item) => member(item, 'type') === 'function_call')
            .map((item) => ({
              id: member(item, 'call_id'),
              name: member(item, 'name'),
              args: member(item, 'arguments'),
            })),
        names,
        true,
        undoStrict(names, strict),
      ),
    result({ callId = '' }, outcome) {
      const { parts } = render(outcome, {
        maxChars,
        holds: (part) => part.type === 'image' && imageTypes.includes(part.mimeType),
      })
      const output = parts.flatMap((part): OpenAiOutputPart[] => {
        if (part.type === 'text') return [{ type: 'input_text', text: part.text }]
        if (part.type !== 'image') return []
        return [{ type: 'input_image', image_url: `data:${part.mimeType};base64,${part.data}`, detail: 'auto' }]
      })
      const [only, ...more] = output
      const plain = more.length === 0 && only?.type === 'input_text'
      return { type: 'function_call_output', call_id: callId, output: plain ? only.text : output }
    },
  }
}

function itemsOf(message: unknown): readonly unknown[] {
  if (Array.isArray(message)) return message
  const output = member(message, 'output')
  return output === undefined ? [message] : listOf(output, 'output')
}
