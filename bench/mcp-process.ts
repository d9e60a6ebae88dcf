// One MCP server in a separate process; it prints its address, and its processor time on request.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import { createExecutor, demoTools } from 'gantry'
import { executorHost, type McpHost } from '../packages/mcp/src/server/host.ts'
import { anyOf, keyFileAuthenticator } from '../packages/service/src/http/authentication/authenticator.ts'
import { createHttpServer } from '../packages/service/src/http/server.ts'
import type { Service } from '../packages/service/src/http/service.ts'
import { createMcpHttpHandler, serviceHost } from '../packages/service/src/mcp/http-handler.ts'
import { gantryService } from './service-gantry.ts'

export type McpSubject = 'bare' | 'memory' | 'durable'

const [subject = '', url = '', key = ''] = process.argv.slice(2)
const nothing = (): void => undefined

/** As in the SDK's documentation: a server and its tool for each request, without state. */
async function bare(): Promise<string> {
  const numbers = { a: { type: 'number' }, b: { type: 'number' } }
  const inputSchema = fromJsonSchema({ type: 'object', properties: numbers, required: ['a', 'b'] })
  const handler = toNodeHandler(
    createMcpHandler(() => {
      const server = new McpServer({ name: 'bare', version: '1.0.0' }, { capabilities: { tools: {} } })
      server.registerTool('demo__add', { description: 'Adds two numbers.', inputSchema }, async (args) => {
        const { a, b } = args as { readonly a: number; readonly b: number }
        const result = { result: a + b }
        return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result }
      })
      return server
    }),
  )
  const server = createServer((request, response) => void handler(request as never, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function gantry(host: McpHost, service: Service): Promise<string> {
  const handler = await createMcpHttpHandler({ host, version: '1.0.0', resource: { issuers: () => [] } })
  const owner = { principal: 'bench', tenant: 'bench', permissions: ['*'] }
  const { authenticate } = anyOf([keyFileAuthenticator(key, owner)])
  const log = { debug: nothing, info: nothing, error: nothing }
  const server = await createHttpServer({ service, log, authenticate, mounts: handler.mounts })
  return server.url
}

async function start(): Promise<string> {
  if (subject === 'bare') return bare()
  if (subject === 'memory') return gantry(executorHost(createExecutor({ tools: demoTools() })), {} as Service)
  const { service } = await gantryService({ url, slots: 64 })
  return gantry(serviceHost(service, new AbortController().signal), service)
}

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMs: (user + system) / 1_000 })
})
process.once('SIGTERM', () => process.exit())
process.send?.({ url: await start() })
