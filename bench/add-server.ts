// A server process with one method, `add`: `add-server.ts http|grpc|mcp`. It ends with its stdin.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Sum } from './add-tool.ts'

export const protoFile = join(import.meta.dirname, 'add.proto')

if (import.meta.filename === process.argv[1]) await serve(process.argv[2] ?? '')

async function serve(kind: string): Promise<void> {
  if (kind === 'mcp') return serveMcp()
  process.stdin.resume().on('end', () => process.exit())
  console.log(kind === 'grpc' ? await serveGrpc() : await serveHttp())
}

async function serveHttp(): Promise<number> {
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { a, b } = JSON.parse(text) as Sum
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ result: a + b }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

async function serveGrpc(): Promise<number> {
  const { Server, ServerCredentials, loadPackageDefinition } = await import('@grpc/grpc-js')
  const { loadSync } = await import('@grpc/proto-loader')
  const { bench } = loadPackageDefinition(loadSync(protoFile)) as unknown as {
    readonly bench: { readonly Adder: { readonly service: import('@grpc/grpc-js').ServiceDefinition } }
  }
  const server = new Server()
  server.addService(bench.Adder.service, {
    add: ({ request: { a, b } }: { readonly request: Sum }, done: (error: null, value: object) => void) =>
      done(null, { result: a + b }),
  })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
    error === null ? resolve(port) : reject(error),
  )
  return promise
}

async function serveMcp(): Promise<void> {
  const { McpServer } = await import('@modelcontextprotocol/server')
  const { StdioServerTransport } = await import('@modelcontextprotocol/server/stdio')
  const { z } = await import('zod')
  const server = new McpServer({ name: 'bench', version: '1.0.0' })
  const inputSchema = z.object({ a: z.number(), b: z.number() })
  const outputSchema = z.object({ result: z.number() })
  server.registerTool('add', { description: 'Adds two numbers.', inputSchema, outputSchema }, ({ a, b }) => {
    const structuredContent = { result: a + b }
    return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent }
  })
  await server.connect(new StdioServerTransport())
}
