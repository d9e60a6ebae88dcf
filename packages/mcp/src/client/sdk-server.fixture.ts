import { fromJsonSchema, inputRequired, McpServer, type ServerContext } from '@modelcontextprotocol/server'

/** A server made with the official library, the same for pipes and HTTP and for both eras. */
export function sdkServer(): McpServer {
  const server = new McpServer(
    { name: 'sdk', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, logging: {} } },
  )
  const numbers = fromJsonSchema<{ a: number; b: number }>({
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
  })
  server.registerTool('add', { description: 'Adds.', inputSchema: numbers }, ({ a, b }) => answer({ result: a + b }))
  server.registerTool('ask', { description: 'Asks a person.' }, async (context: ServerContext) => {
    const { inputResponses } = context.mcpReq
    if (inputResponses !== undefined) return answer({ heard: inputResponses })
    const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
    return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who?', requestedSchema }) } })
  })
  server.registerTool('think', { description: 'Asks a model.' }, async (context: ServerContext) => {
    const { inputResponses } = context.mcpReq
    if (inputResponses !== undefined) return answer({ heard: inputResponses })
    const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Six times seven?' } }]
    return inputRequired({ inputRequests: { thought: inputRequired.createMessage({ messages, maxTokens: 10 }) } })
  })
  server.registerTool('slow', { description: 'Reports on its way.' }, async ({ mcpReq }: ServerContext) => {
    const progressToken = mcpReq._meta?.progressToken
    for (const progress of [1, 2, 3]) {
      if (progressToken === undefined) break
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } })
    }
    return answer({ done: true })
  })
  return server
}

function answer(value: Record<string, unknown>) {
  return { content: [{ type: 'text' as const, text: JSON.stringify(value) }], structuredContent: value }
}
