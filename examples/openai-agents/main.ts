// Gantry's tools in the OpenAI Agents SDK: each is a function tool in strict mode. The model is a script behind the
// SDK's Model interface, and tracing is off, so that nothing leaves this process.

import { Agent, type AgentOutputItem, type Model, Runner, tool, Usage } from '@openai/agents'
import { answerCalls, createExecutor, defineTool, openaiResponses } from 'gantry'

const gantry = createExecutor({
  tools: [
    defineTool({
      namespace: 'calendar',
      name: 'free',
      description: 'Free hours of a day.',
      effect: 'read',
      inputSchema: {
        type: 'object',
        properties: { day: { type: 'string', format: 'date', pattern: '^\\d{4}-\\d{2}-\\d{2}$' } },
        required: ['day'],
      },
      run: ({ day }) => ({ day, free: ['10:00', '15:00'] }),
    }),
    defineTool({
      namespace: 'calendar',
      name: 'book',
      description: 'Books an hour.',
      inputSchema: {
        type: 'object',
        properties: { day: { type: 'string' }, hour: { type: 'string' }, note: { type: 'string' } },
        required: ['day', 'hour'],
        additionalProperties: false,
      },
      run: ({ day, hour, note = 'no note' }) => `Booked ${day} at ${hour}, ${note}.`,
    }),
  ],
})

const adapter = openaiResponses({ strict: true })
const { tools, names, warnings } = adapter.tools(gantry.tools().items)
for (const { tool, path, done } of warnings) console.log(`${tool} ${path}: ${done}`)

const functions = tools.map(({ name, description, parameters, strict }) =>
  tool({
    name,
    description,
    strict: strict as true,
    parameters: parameters as never,
    async execute(input: unknown, _context: unknown, details?: { toolCall?: { callId: string } }) {
      const call_id = details?.toolCall?.callId ?? 'call'
      const call = { type: 'function_call', call_id, name, arguments: JSON.stringify(input) }
      const [reply] = await answerCalls(adapter, call, names, gantry.run)
      console.log(`model calls ${name} ${JSON.stringify(input)}\n  reads: ${JSON.stringify(reply?.output)}`)
      return reply?.output as string
    },
  }),
)

const agent = new Agent({
  name: 'Secretary',
  instructions: 'Book what the user asks for.',
  tools: functions,
  model: scripted([
    { name: 'calendar__free', arguments: '{"day":"next Friday"}' },
    { name: 'calendar__free', arguments: '{"day":"2026-11-20"}' },
    { name: 'calendar__book', arguments: '{"day":"2026-11-20","hour":"10:00","note":null}' },
    'It is booked for Friday at ten.',
  ]),
})
const { finalOutput } = await new Runner({ tracingDisabled: true }).run(agent, 'Book me an hour next Friday.')
console.log('model:', finalOutput)
await gantry.close()

/** A model that returns scripted answers. */
function scripted(script: readonly (string | { name: string; arguments: string })[]): Model {
  let step = 0
  return {
    async getResponse() {
      const next = script[step] ?? ''
      step += 1
      const output: AgentOutputItem =
        typeof next === 'string'
          ? { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: next }] }
          : { type: 'function_call', callId: `call_${step}`, status: 'completed', ...next }
      return { usage: new Usage(), output: [output] }
    },
    // biome-ignore lint/correctness/useYield: the example does not stream
    async *getStreamedResponse() {
      throw new Error('This model does not stream.')
    },
  }
}
