import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { sdkServer } from './sdk-server.fixture.ts'

export interface Served extends AsyncDisposable {
  readonly origin: string
  readonly requests: { readonly method: string; readonly url: string; readonly headers: IncomingMessage['headers'] }[]
}

/** Serves on a free port of this machine and remembers who came. */
export async function serve(listener: RequestListener): Promise<Served> {
  const requests: Served['requests'] = []
  const server = createServer((request, response) => {
    requests.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers })
    listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The newest revision, in which every request stands alone. */
export async function serveModern(): Promise<Served & { toolsChanged(): void }> {
  const handler = createMcpHandler(sdkServer)
  const answer = toNodeHandler(handler)
  const served = await serve((request, response) => void answer(request as never, response))
  return { ...served, toolsChanged: () => handler.notify.toolsChanged() }
}

/** The older revisions, with sessions that the server can forget. */
export async function serveSessions(): Promise<Served & { forget(): void; sessions(): number }> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  let opened = 0
  const served = await serve(async (request, response) => {
    const id = request.headers['mcp-session-id']
    const known = sessions.get(typeof id === 'string' ? id : '')
    if (known !== undefined) return known.handleRequest(request, response)
    if (id !== undefined) return void response.writeHead(404).end()
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => {
        opened += 1
        sessions.set(session, transport)
      },
    })
    await sdkServer().connect(transport)
    return transport.handleRequest(request, response)
  })
  return { ...served, forget: () => sessions.clear(), sessions: () => opened }
}
