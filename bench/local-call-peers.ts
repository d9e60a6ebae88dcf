import type { Run } from './measure.ts'
import { importPeer } from './peers.ts'

interface ZodSchema {
  safeParse(value: unknown): { readonly success: boolean; readonly data?: unknown }
}
interface Zod {
  object(shape: object): ZodSchema
  number(): unknown
}
interface Sum {
  readonly a: number
  readonly b: number
}

async function zodSchemas(): Promise<{ readonly input: ZodSchema; readonly output: ZodSchema }> {
  const { z } = await importPeer<{ z: Zod }>('zod')
  return { input: z.object({ a: z.number(), b: z.number() }), output: z.object({ result: z.number() }) }
}

/** The official client and server, joined by their in-memory transport; the client has listed the tools, so it checks outputs. */
export async function mcpInMemory(): Promise<Run> {
  const { McpServer } = await importPeer<{
    McpServer: new (
      info: object,
    ) => {
      registerTool(name: string, definition: object, run: (args: Sum) => unknown): void
      connect(transport: unknown): Promise<void>
    }
  }>('@modelcontextprotocol/server')
  const { Client, InMemoryTransport } = await importPeer<{
    Client: new (
      info: object,
    ) => {
      connect(transport: unknown): Promise<void>
      listTools(): Promise<unknown>
      callTool(call: object): Promise<{ readonly structuredContent?: unknown }>
    }
    InMemoryTransport: { createLinkedPair(): [unknown, unknown] }
  }>('@modelcontextprotocol/client')
  const { input, output } = await zodSchemas()
  const server = new McpServer({ name: 'bench', version: '1.0.0' })
  const definition = { description: 'Adds two numbers.', inputSchema: input, outputSchema: output }
  server.registerTool('add', definition, ({ a, b }) => {
    const structuredContent = { result: a + b }
    return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent }
  })
  const client = new Client({ name: 'bench', version: '1.0.0' })
  const [near, far] = InMemoryTransport.createLinkedPair()
  await Promise.all([server.connect(far), client.connect(near)])
  await client.listTools()
  const run = (n: number) => client.callTool({ name: 'add', arguments: { a: n, b: 3 } })
  if ((await run(0)).structuredContent === undefined) throw new Error('the MCP call gave no result')
  return run
}

/** What `generateText` does with one tool call, by its own functions; the output check is ours, because it has none. */
export async function aiSdk(): Promise<Run> {
  const { tool } = await importPeer<{ tool(definition: object): object }>('ai')
  const { parseToolCall } = await importPeer<{
    parseToolCall(options: object): Promise<{ readonly input: unknown; readonly invalid?: boolean }>
  }>('ai/internal')
  const { executeTool, safeValidateTypes } = await importPeer<{
    executeTool(options: object): AsyncIterable<{ readonly type: string; readonly output: unknown }>
    safeValidateTypes(options: object): Promise<{ readonly success: boolean }>
  }>('@ai-sdk/provider-utils')
  const { input: inputSchema, output: outputSchema } = await zodSchemas()
  const execute = async ({ a, b }: Sum): Promise<unknown> => ({ result: a + b })
  const add = tool({ description: 'Adds two numbers.', inputSchema, outputSchema, execute })
  const tools = { add }
  return async (n) => {
    const toolCall = { type: 'tool-call', toolCallId: 'call', toolName: 'add', input: `{"a":${n},"b":3}` }
    const { input, invalid } = await parseToolCall({ toolCall, tools, messages: [] })
    if (invalid) throw new Error('the AI SDK refused the call')
    let value: unknown
    const options = { toolCallId: 'call', messages: [], abortSignal: undefined }
    for await (const part of executeTool({ tool: add, input, options })) if (part.type === 'final') value = part.output
    const { success } = await safeValidateTypes({ value, schema: outputSchema })
    if (!success) throw new Error('the AI SDK gave no result')
  }
}

/** A structured tool; it checks its input, and the output check is ours, because it has none. */
export async function langChain(): Promise<Run> {
  const { tool } = await importPeer<{
    tool(run: (args: Sum) => unknown, fields: object): { invoke(args: object): Promise<unknown> }
  }>('@langchain/core/tools')
  const { input: schema, output } = await zodSchemas()
  const add = tool(async ({ a, b }) => ({ result: a + b }), { name: 'add', description: 'Adds two numbers.', schema })
  return async (n) => {
    if (!output.safeParse(await add.invoke({ a: n, b: 3 })).success) throw new Error('LangChain gave no result')
  }
}
