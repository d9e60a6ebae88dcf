import { type Identity, type Json, type JsonObject, ToolError } from '@gantry/contract'
import type { McpHost } from './host.ts'
import type { Prepared, Surface } from './surface.ts'
import type { McpTool } from './tool-list.ts'
import type { CalledTool } from './tool-result.ts'

const text = { type: 'string' } as const
const toolId = { ...text, description: 'The id of a tool, `namespace:name`, as search_tools gives it.' } as const

function tool(
  name: string,
  description: string,
  properties: JsonObject,
  required: readonly string[],
  reads: boolean,
): McpTool {
  return {
    name,
    description,
    inputSchema: { type: 'object', properties, required: [...required], additionalProperties: false },
    annotations: { readOnlyHint: reads },
  }
}

/** The compact surface: what a model needs to find its way through any number of tools. */
export const compactTools: readonly McpTool[] = [
  tool(
    'search_tools',
    'Find tools by what they do. Gives ids and one-line summaries, best first. Start here.',
    {
      query: { ...text, description: 'A few words, such as "create github issue".' },
      limit: { type: 'integer', minimum: 1, maximum: 100, description: '10 when absent.' },
      namespace: { ...text, description: 'Only tools of this namespace.' },
      cursor: { ...text, description: 'From the page before.' },
    },
    ['query'],
    true,
  ),
  tool(
    'describe_tool',
    'Tell what a tool takes and gives. Read this before the first call of a tool.',
    {
      tool: toolId,
      level: {
        type: 'string',
        enum: ['summary', 'types', 'schema', 'full'],
        description: 'schema when absent; types are for code.',
      },
    },
    ['tool'],
    true,
  ),
  tool('list_namespaces', 'List the groups that tools are in, with how many each has.', {}, [], true),
  tool('list_tool_examples', 'Show worked calls of a tool.', { tool: toolId }, ['tool'], true),
  tool(
    'run_tool',
    'Call a tool.',
    { tool: toolId, args: { type: 'object', description: 'What the tool is called with; see describe_tool.' } },
    ['tool'],
    false,
  ),
  tool(
    'run_chain',
    'Call several tools, one after the other; later steps use earlier outputs as {{steps.a.output.member}}.',
    {
      steps: {
        type: 'array',
        items: { type: 'object' },
        description:
          'Such as [{"id":"a","tool":"ns:one","args":{}},{"id":"b","tool":"ns:two","args":{"x":"{{steps.a.output.y}}"}}].',
      },
      input: { description: 'What {{input}} stands for.' },
    },
    ['steps'],
    false,
  ),
  tool(
    'run_code',
    'Run a program that calls tools: `const x = await tools.ns.name({…}); return x`. Loops, branches and Promise.all are just code; only what it returns comes back.',
    {
      code: text,
      language: { type: 'string', enum: ['typescript', 'javascript', 'python', 'workflow'] },
      limits: { type: 'object', description: 'Budgets, such as {"toolCalls": 100, "wallMs": 30000}.' },
      check: { type: 'boolean', description: 'Check the program against the tools before it runs.' },
    },
    ['code'],
    false,
  ),
]

const pageSize = 1_000
const mostTools = 100_000

type Answering = (args: JsonObject, identity: Identity, signal: AbortSignal) => Promise<Json>

/** Seven tools in place of all: a model that has many finds, reads and runs only those that it needs. */
export function compactSurface(host: McpHost): Surface {
  const answers: { readonly [name: string]: Answering } = {
    async search_tools({ query, ...filter }, identity, signal) {
      const { items, cursor } = await host.executor.search(String(query), { ...filter, identity, signal })
      return { tools: items, ...(cursor === undefined ? {} : { cursor }) } as unknown as Json
    },
    async describe_tool({ tool, level = 'schema' }, identity) {
      return (await host.executor.describe(String(tool), { level: level as 'schema', identity })) as unknown as Json
    },
    list_namespaces: async (_args, identity) => ({ namespaces: await namespacesFor(host, identity) }),
    async list_tool_examples({ tool }, identity) {
      const doc = await host.executor.describe(String(tool), { level: 'full', examples: 20, identity })
      return { tool: doc.id, examples: doc.examples ?? [] } as unknown as Json
    },
  }
  const runs: { readonly [name: string]: (args: JsonObject) => Prepared } = {
    run_tool: ({ tool, args = {} }) => ({ kind: 'run', input: { kind: 'call', tool: String(tool), args } }),
    run_chain: ({ steps, input }) => ({
      kind: 'run',
      input: { kind: 'chain', args: { steps, ...(input === undefined ? {} : { input }) } },
    }),
    run_code: (args) => ({ kind: 'run', input: { kind: 'call', tool: 'code:program', args } }),
  }
  return {
    list: async () => ({ tools: compactTools }),
    prepare(name, args, identity) {
      checkArgs(name, args)
      if (Object.hasOwn(runs, name)) return runs[name]?.(args) as Prepared
      const answer = answers[name]
      return { kind: 'answer', answer: async (signal) => asResult(await (answer as Answering)(args, identity, signal)) }
    },
    outputSchema: () => undefined,
    hashFor: () => 'compact',
    state: () => [],
  }
}

/** Refuses what the schema of a tool does not say; what its members hold is checked where they are used. */
function checkArgs(name: string, args: JsonObject): void {
  const tool = compactTools.find((one) => one.name === name)
  if (tool === undefined) throw new ToolError('TOOL_NOT_FOUND', 'No tool has this name.')
  const { properties, required = [] } = tool.inputSchema as {
    readonly properties: { readonly [name: string]: { readonly type?: string } }
    readonly required?: readonly string[]
  }
  const faults = new Map(required.filter((key) => !Object.hasOwn(args, key)).map((key) => [key, 'is missing']))
  for (const [key, value] of Object.entries(args)) {
    const known = Object.hasOwn(properties, key) ? properties[key] : undefined
    if (known === undefined) faults.set(key, 'is not known')
    else if (known.type !== undefined && !fits(known.type, value)) faults.set(key, `must be ${known.type}`)
  }
  const issues = [...faults].map(([key, message]) => ({ path: `/${key.slice(0, 100)}`, message }))
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('INPUT_INVALID', `The arguments of ${name} do not fit: ${text}.`, { details: { issues } })
}

function fits(type: string, value: Json | undefined): boolean {
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isSafeInteger(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return typeof value === type
}

function asResult(output: Json): CalledTool {
  return { content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output }
}

/** The namespaces that a caller sees tools of, with how many. */
async function namespacesFor({ executor }: McpHost, identity: Identity): Promise<Json[]> {
  await executor.ready()
  const counts = new Map<string, number>()
  let seen = 0
  for (let cursor: string | undefined, more = true; more && seen < mostTools; more = cursor !== undefined) {
    const page = executor.tools({ identity, limit: pageSize, ...(cursor === undefined ? {} : { cursor }) })
    for (const { tool } of page.items) counts.set(tool.namespace, (counts.get(tool.namespace) ?? 0) + 1)
    seen += page.items.length
    cursor = page.cursor
  }
  return [...counts].map(([namespace, tools]) => ({ namespace, tools }))
}
