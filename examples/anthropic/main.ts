// Anthropic's Messages API in both directions. The model is a script that answers in the API's own JSON, so that the
// example needs no key and no network; replace it by `client.messages.create`.

import { answerCalls, anthropic, createExecutor, defineTool } from 'gantry'

const gantry = createExecutor({
  tools: [
    defineTool({
      namespace: 'weather',
      name: 'get',
      description: 'The weather in a city.',
      effect: 'read',
      inputSchema: {
        type: 'object',
        properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] } },
        required: ['city'],
        additionalProperties: false,
      },
      run: ({ city, unit = 'celsius' }) => `${city}: 15 degrees ${unit}, light rain.`,
    }),
    defineTool({
      namespace: 'weather',
      name: 'map',
      description: 'A picture of the weather over a city.',
      effect: 'read',
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      run: () => ({ content: [{ type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }] }),
    }),
  ],
})

const adapter = anthropic()
const { tools, names } = adapter.tools(gantry.tools().items)
console.log('tools:', tools.map(({ name }) => name).join(', '))

const messages: { role: string; content: unknown }[] = [{ role: 'user', content: 'Do I need an umbrella in Oslo?' }]
for (let turn = 0; turn < 5; turn++) {
  const answer = await create({ model: 'claude', max_tokens: 1_000, tools, messages })
  messages.push({ role: 'assistant', content: answer.content })
  for (const block of answer.content) {
    if (block.type === 'text') console.log('model:', block.text)
    else console.log('model calls', block.name, JSON.stringify(block.input))
  }
  if (answer.stop_reason !== 'tool_use') break
  const results = await answerCalls(adapter, answer, names, gantry.run)
  messages.push({ role: 'user', content: results })
  for (const { content, is_error } of results) {
    for (const part of content) {
      console.log(is_error ? '  error:' : '  result:', part.type === 'text' ? part.text : `(${part.source.media_type})`)
    }
  }
}
await gantry.close()

type Block = { type: 'text'; text: string } | { type: 'tool_use'; id: string; name: string; input: unknown }

/** The script: a wrong unit first, corrected after it has read the error. */
async function create(request: { model: string; max_tokens: number; tools: unknown; messages: readonly unknown[] }) {
  const script: readonly (readonly Block[])[] = [
    [
      { type: 'text', text: 'I will look.' },
      { type: 'tool_use', id: 'toolu_1', name: 'weather__get', input: { city: 'Oslo', unit: 'kelvin' } },
    ],
    [
      { type: 'tool_use', id: 'toolu_2', name: 'weather__get', input: { city: 'Oslo', unit: 'celsius' } },
      { type: 'tool_use', id: 'toolu_3', name: 'weather__map', input: { city: 'Oslo' } },
    ],
    [{ type: 'text', text: 'Yes: 15 degrees and light rain.' }],
  ]
  const content = script[Math.floor(request.messages.length / 2)] ?? []
  return { role: 'assistant', content, stop_reason: content.at(-1)?.type === 'tool_use' ? 'tool_use' : 'end_turn' }
}
