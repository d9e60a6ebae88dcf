import { isObject } from '@gantry/contract/internal/json'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { type Adapter, type AdapterOptions, adapterMembers } from './adapter.ts'
import { listOf, member, readCalls, valueOnly } from './calls.ts'
import { type Node, plainTop } from './reduce.ts'
import { render } from './render.ts'
import { readTools, writeTools } from './tools.ts'

/** A tool of the Messages API. */
export interface AnthropicTool {
  name: string
  description: string
  input_schema: Node
}

export type AnthropicResultPart =
  | { type: 'text'; text: string }
  | { type: 'image'; source: { type: 'base64'; media_type: string; data: string } }

/** The result of one call; all results of one turn go into the content of one user message, before any text. */
export interface AnthropicResult {
  type: 'tool_result'
  tool_use_id: string
  content: AnthropicResultPart[]
  is_error?: true
}

const imageTypes: readonly unknown[] = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']
const argumentName = /^[a-zA-Z0-9_.-]{1,64}$/

const optionsShape = optionsCheck<AdapterOptions>({ members: adapterMembers })

/** Anthropic's Messages API: `calls` takes the assistant's message or its content. */
export function anthropic(options: AdapterOptions = {}): Adapter<AnthropicTool[], AnthropicResult> {
  checkOptions('options of anthropic', optionsShape, options)
  const { clean = true, maxChars } = options
  return {
    format: 'anthropic',
    tools(entries) {
      const writing = { format: 'Anthropic', clean, fields: [] }
      const written = writeTools(entries, writing, ({ name, description, inputSchema }, report): AnthropicTool => {
        const schema = plainTop(inputSchema, '/inputSchema', 'Anthropic', report)
        for (const argument of isObject(schema.properties) ? Object.keys(schema.properties) : []) {
          if (argumentName.test(argument)) continue
          const message = 'Anthropic may refuse a name that is not made of 1 to 64 letters, digits, `_`, `.` and `-`.'
          report({ path: '/inputSchema/properties', keyword: 'name', done: 'kept', message })
        }
        return { name, description, input_schema: schema }
      })
      return { ...written, tools: [...written.tools] }
    },
    read: (tools, how = {}) =>
      readTools(tools, how, clean, ({ name, description, input_schema, type, ...rest }, report) => {
        if (type === undefined || type === null || type === 'custom') {
          return { name, description, inputSchema: input_schema, rest }
        }
        report({ path: '/type', keyword: 'type', done: 'dropped', message: 'Tools of the server cannot be read.' })
        return undefined
      }),
    calls: (message, names) =>
      readCalls(
        () =>
          blocksOf(message)
            .filter((block) => member(block, 'type') === 'tool_use')
            .map((block) => ({
              id: member(block, 'id'),
              name: member(block, 'name'),
              args: valueOnly(member(block, 'input')),
            })),
        names,
        true,
      ),
    result({ callId = '' }, outcome) {
      const { isError, parts } = render(outcome, {
        maxChars,
        holds: (part) => part.type === 'image' && imageTypes.includes(part.mimeType),
      })
      const content = parts.flatMap((part): AnthropicResultPart[] => {
        // An empty text block is refused by the API.
        if (part.type === 'text') return part.text === '' ? [] : [{ type: 'text', text: part.text }]
        if (part.type !== 'image') return []
        return [{ type: 'image', source: { type: 'base64', media_type: part.mimeType, data: part.data } }]
      })
      return { type: 'tool_result', tool_use_id: callId, content, ...(isError ? { is_error: true } : {}) }
    },
  }
}

function blocksOf(message: unknown): readonly unknown[] {
  if (Array.isArray(message)) return message
  const content = member(message, 'content')
  return content === undefined || typeof content === 'string' ? [] : listOf(content, 'content')
}
