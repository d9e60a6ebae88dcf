// Gantry's tools in LangChain: bound to a chat model as OpenAI functions, called through the executor, and answered
// with ToolMessages. The model is a script behind LangChain's own base class, so that nothing leaves this process.

import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, type BaseMessage, HumanMessage, type ToolCall, ToolMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'
import { answerCalls, anthropic, createExecutor, defineTool, openaiChat } from 'gantry'
import * as z from 'zod'

const gantry = createExecutor({
  tools: [
    defineTool({
      namespace: 'library',
      name: 'find',
      description: 'Finds books by a word of their title.',
      effect: 'read',
      inputSchema: z.object({ word: z.string().min(2), limit: z.number().int().max(5).default(2) }),
      run: ({ word, limit }) =>
        ['Dune', 'Dune Messiah', 'Children of Dune', 'Emma'].filter((title) => title.includes(word)).slice(0, limit),
    }),
    defineTool({
      namespace: 'library',
      name: 'lend',
      description: 'Lends a book.',
      inputSchema: z.object({ title: z.string() }),
      run({ title }) {
        if (title === 'Dune') throw new Error('Dune is lent out until Monday.')
        return `You have ${title}.`
      },
    }),
  ],
})

/** A chat model that returns scripted answers, once tools are bound to it. */
class Scripted extends BaseChatModel {
  readonly script: readonly (string | readonly ToolCall[])[]

  constructor(script: readonly (string | readonly ToolCall[])[]) {
    super({})
    this.script = script
  }

  _llmType(): string {
    return 'scripted'
  }

  override bindTools(tools: object[]) {
    console.log('bound:', tools.map((tool) => (tool as { function: { name: string } }).function.name).join(', '))
    return this.withConfig({})
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const step = this.script[messages.filter((message) => message.type === 'ai').length] ?? ''
    const message = new AIMessage(typeof step === 'string' ? step : { content: '', tool_calls: [...step] })
    return { generations: [{ text: message.text, message }] }
  }
}

const { tools, names } = openaiChat().tools(gantry.tools().items)
const model = new Scripted([
  [{ id: 'call_1', name: 'library__find', args: { word: 'D' } }],
  [{ id: 'call_2', name: 'library__find', args: { word: 'Dune' } }],
  [
    { id: 'call_3', name: 'library__lend', args: { title: 'Dune' } },
    { id: 'call_4', name: 'library__lend', args: { title: 'Dune Messiah' } },
  ],
  'Dune is lent out; I got you Dune Messiah.',
]).bindTools(tools)

// LangChain's tool calls differ from Anthropic's only in the names of their members, and both support errors.
const adapter = anthropic()
const messages: BaseMessage[] = [new HumanMessage('Lend me something of the Dune books.')]
for (let turn = 0; turn < 6; turn++) {
  const answer = await model.invoke(messages)
  messages.push(answer)
  const calls = answer.tool_calls ?? []
  if (calls.length === 0) break
  for (const { name, args } of calls) console.log('model calls', name, JSON.stringify(args))
  const blocks = calls.map(({ id, name, args }) => ({ type: 'tool_use', id, name, input: args }))
  for (const { tool_use_id, content, is_error } of await answerCalls(adapter, blocks, names, gantry.run)) {
    const text = content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`)).join('\n')
    const status = is_error ? 'error' : 'success'
    console.log(`  ${status}: ${text}`)
    messages.push(new ToolMessage({ tool_call_id: tool_use_id, content: text, status }))
  }
}
console.log('model:', messages.at(-1)?.text)
await gantry.close()
