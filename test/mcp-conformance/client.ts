import type { Json, JsonObject, Tool } from '@gantry/contract'
import { fakeContext, fakeHost } from '../../packages/conformance/src/backend.ts'
import type { Backend } from '../../packages/core/src/backends/backend.ts'
import type { Egress } from '../../packages/core/src/egress/egress.ts'
import { createEgressGuard } from '../../packages/core/src/egress/guard.ts'
import { mcp } from '../../packages/mcp/src/client/mcp.ts'
import type { McpOAuth, McpOptions } from '../../packages/mcp/src/client/settings.ts'

/**
 * The program that the conformance suite drives: our MCP backend, which gets the server's address from the suite. It finds
 * the server's tools and calls them, which is all that a backend does; the suite watches the wire.
 */
interface Given {
  readonly client_id?: string
  readonly client_secret?: string
  readonly private_key_pem?: string
  readonly signing_algorithm?: string
  readonly toolCalls?: readonly { readonly name: string; readonly arguments?: JsonObject }[]
}

const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const given: Given = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const url = process.argv[2] ?? ''
const secrets = { secret: given.client_secret ?? '', key: given.private_key_pem ?? '' }

await main()

async function main(): Promise<void> {
  const egress = anyLoopback(createEgressGuard())
  const backend = mcp(options())
  const host = fakeHost(egress, secrets)
  backend.attach?.(host)
  try {
    await backend.discover?.(AbortSignal.timeout(20_000))
    const tools = host.published.at(-1) ?? []
    if (scenario !== 'json-schema-ref-no-deref')
      for (const { tool, args } of callsOf(tools)) await callTool(backend, tool, args)
  } finally {
    await backend.close?.(AbortSignal.timeout(5_000))
    await egress.close()
  }
}

function options(): McpOptions {
  return {
    name: 'suite',
    url,
    private: true,
    timeoutMs: 20_000,
    onElicitation: async () => ({
      action: 'accept',
      content: scenario.startsWith('sep-2322') ? { confirmed: true } : {},
    }),
    ...(scenario.startsWith('auth/') ? { oauth: oauth() } : {}),
  }
}

function oauth(): McpOAuth {
  if (scenario.startsWith('auth/client-credentials')) {
    const proof =
      given.private_key_pem === undefined
        ? { clientSecret: 'secret:secret' }
        : { privateKey: 'secret:key', algorithm: given.signing_algorithm ?? 'ES256' }
    return { grant: 'client_credentials', clientId: given.client_id ?? '', ...proof }
  }
  return {
    grant: 'authorization_code',
    redirectUrl: 'http://localhost:3000/callback',
    clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
    ...(given.client_id === undefined ? {} : { clientId: given.client_id, clientSecret: 'secret:secret' }),
    // The suite's authorization servers consent without a user and redirect at once.
    onRedirect: async (address) => (await fetch(address, { redirect: 'manual' })).headers.get('location') ?? '',
  }
}

function callsOf(tools: readonly Tool[]): readonly { readonly tool: Tool; readonly args: JsonObject }[] {
  const echo = tools.find(({ name }) => name === 'json_schema_echo')
  if (echo !== undefined) return [{ tool: echo, args: { schema: schemaToEcho(tools) } }]
  if (given.toolCalls === undefined) return tools.map((tool) => ({ tool, args: sampleOf(tool) }))
  return given.toolCalls.flatMap(({ name, arguments: args = {} }) => {
    const tool = tools.find((one) => one.name === name)
    return tool === undefined ? [] : [{ tool, args }]
  })
}

/** One scenario checks the client's reading of another tool's schema. */
function schemaToEcho(tools: readonly Tool[]): JsonObject {
  return (tools.find(({ name }) => name === 'json_schema_2020_12_tool')?.inputSchema ?? {}) as JsonObject
}

/** Arguments that satisfy the required members of a tool's schema, for simple types. */
function sampleOf({ inputSchema }: Tool): JsonObject {
  const { properties = {}, required = [] } = inputSchema as {
    readonly properties?: { readonly [name: string]: { readonly type?: string } }
    readonly required?: readonly string[]
  }
  const samples: { readonly [type: string]: Json } = { number: 5, integer: 3, string: 'text', boolean: true }
  return Object.fromEntries(required.map((name) => [name, samples[properties[name]?.type ?? ''] ?? {}]))
}

async function callTool(backend: Backend, tool: Tool, args: JsonObject): Promise<void> {
  const [binding = { kind: 'mcp' }] = tool.backends
  const id = `${tool.namespace}:${tool.name}:${tool.version}`
  await backend.call({ id, tool, args, binding }, fakeContext(AbortSignal.timeout(20_000)))
}

/** The egress guard with any origin allowed: the ports of the suite's servers are not known beforehand. */
function anyLoopback(egress: Egress): Egress {
  return {
    ...egress,
    fetch: (scope) => (input, init) => {
      const { origin, hostname } = new URL(input instanceof Request ? input.url : input)
      const own = hostname === 'localhost' || hostname === '127.0.0.1' ? [{ origin, private: true }] : []
      return egress.fetch({ ...scope, own })(input, init)
    },
  }
}
