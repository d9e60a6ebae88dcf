import type { TestContext } from 'node:test'
import type { Identity } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { inputRequired, ResourceNotFoundError } from '@modelcontextprotocol/server'
import type { McpExtension } from '../../mcp/src/server/server.ts'
import { createHttpServer } from '../src/http/server.ts'
import { createMcpHttpHandler, serviceHost } from '../src/mcp/http-handler.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { askingTools, listedAsking, stateCodec } from './mcp-conformance-asking.fixture.ts'
import { png, suiteTools } from './mcp-conformance-tools.fixture.ts'
import { openServiceSite, type ServiceSite } from './service-site.fixture.ts'

const caller: Identity = { principal: 'suite', tenant: 'suite', permissions: ['*'] }

/**
 * A whole service with its MCP endpoint, as `gantry serve` has it, with what the conformance suites want to find there.
 * The suites cannot send a key, so that every request is authenticated.
 */
export async function openSuiteServer(t: TestContext): Promise<{ readonly url: string }> {
  const site = await openServiceSite(t, pgliteDatabase, { tools: [...suiteTools] }, { slots: 16 })
  const leaving = new AbortController()
  const handler = await createMcpHttpHandler({
    host: serviceHost(site.service, leaving.signal),
    version: '1.0.0',
    namespace: 'test',
    lookMs: 50,
    taskAfterMs: 200,
    extension: extensionOf(site),
    resource: { issuers: () => [] },
  })
  const log = { debug: () => undefined, info: () => undefined, error: console.error }
  const server = await createHttpServer({
    service: site.service,
    log,
    mounts: handler.mounts,
    authenticate: async () => ({ identity: caller }),
  })
  t.after(async () => {
    leaving.abort()
    await handler.close()
    await server.close({ graceMs: 100 })
  })
  return { url: `${server.url}/mcp` }
}

/** Prompts, resources and tools that ask back. */
function extensionOf(site: ServiceSite): McpExtension {
  let changes = 0
  const change = async () => {
    changes += 1
    const added = { namespace: 'test', name: `added_${changes}`, description: 'One more.', effect: 'read' } as const
    const more = defineTool({ ...added, inputSchema: { type: 'object' }, run: () => changes })
    await site.configure({ tools: [...suiteTools, more] })
    return { content: [{ type: 'text' as const, text: 'The tools are others now.' }] }
  }
  return {
    capabilities: (era) => ({
      prompts: {},
      completions: {},
      resources: era === 'legacy' ? { subscribe: true } : {},
    }),
    options: { requestState: { verify: stateCodec.verify } },
    tools: listedAsking([...Object.keys(askingTools), 'test_trigger_tool_change']),
    async call({ name, arguments: args = {} }, ctx) {
      if (name === 'test_trigger_tool_change') return change()
      return (askingTools[name] as NonNullable<(typeof askingTools)[string]>)(ctx, args)
    },
    extend(server, era) {
      server.setRequestHandler('completion/complete', () => ({ completion: { values: ['paris', 'park'], total: 2 } }))
      server.setRequestHandler('prompts/list', () => ({ prompts }))
      server.setRequestHandler('prompts/get', ({ params: { name, arguments: args = {} } }, ctx) => {
        if (name !== 'test_input_required_result_prompt') return { messages: messagesOf(name, args) }
        const { content } = (ctx.mcpReq.inputResponses?.user_context ?? {}) as { content?: { context?: string } }
        if (content?.context !== undefined) return { messages: [said(`In the context ${content.context}`)] }
        const properties = { context: { type: 'string' } }
        const requestedSchema = { type: 'object', properties, required: ['context'] }
        const message = 'What context should the prompt use?'
        const question = inputRequired.elicit({ message, requestedSchema } as never)
        return inputRequired({ inputRequests: { user_context: question } }) as never
      })
      server.setRequestHandler('resources/list', () => ({ resources }))
      server.setRequestHandler('resources/templates/list', () => ({
        resourceTemplates: [{ name: 'data', uriTemplate: 'test://template/{id}/data', description: 'By id.' }],
      }))
      server.setRequestHandler('resources/read', ({ params: { uri } }) => ({ contents: [contentOf(uri)] }))
      if (era === 'modern') return
      server.setRequestHandler('resources/subscribe', () => ({}))
      server.setRequestHandler('resources/unsubscribe', () => ({}))
    },
  }
}

function said(text: string) {
  return { role: 'user' as const, content: { type: 'text' as const, text } }
}

const argument = (name: string) => ({ name, description: 'A text.', required: true })
const prompts = [
  { name: 'test_simple_prompt', description: 'Without arguments.' },
  { name: 'test_prompt_with_arguments', description: 'With two.', arguments: [argument('arg1'), argument('arg2')] },
  { name: 'test_prompt_with_embedded_resource', description: 'With one.', arguments: [argument('resourceUri')] },
  { name: 'test_prompt_with_image', description: 'With an image.' },
  { name: 'test_input_required_result_prompt', description: 'Asks first.' },
]

function messagesOf(name: string, args: { readonly [name: string]: string }) {
  const user = 'user' as const
  if (name === 'test_prompt_with_arguments') {
    return [said(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`)]
  }
  if (name === 'test_prompt_with_embedded_resource') {
    const text = 'Embedded resource content for testing.'
    const resource = { uri: args.resourceUri ?? '', mimeType: 'text/plain', text }
    return [
      { role: user, content: { type: 'resource' as const, resource } },
      said('Please process the embedded resource above.'),
    ]
  }
  if (name === 'test_prompt_with_image') {
    const content = { type: 'image' as const, data: png, mimeType: 'image/png' }
    return [{ role: user, content }, said('Please analyze the image above.')]
  }
  return [said('This is a simple prompt for testing.')]
}

const resources = [
  { uri: 'test://static-text', name: 'text', description: 'A text.', mimeType: 'text/plain' },
  { uri: 'test://static-binary', name: 'binary', description: 'An image.', mimeType: 'image/png' },
  { uri: 'test://watched-resource', name: 'watched', description: 'A text.', mimeType: 'text/plain' },
]

function contentOf(uri: string) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
  if (id !== undefined) {
    const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` })
    return { uri, mimeType: 'application/json', text }
  }
  if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: png }
  if (uri === 'test://static-text') {
    return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }
  }
  if (uri === 'test://watched-resource') return { uri, mimeType: 'text/plain', text: 'It is watched.' }
  throw new ResourceNotFoundError(uri)
}
