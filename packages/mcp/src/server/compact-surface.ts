import { type Identity, type Json, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { DescribeOptions } from '@gantry/core'
import type { McpHost } from './host.ts'
import type { Prepared, Surface } from './surface.ts'
import type { McpTool } from './tool-list.ts'
import type { CalledTool } from './tool-result.ts'

const text = { type: 'string' } as const
const toolId = { ...text, description: 'The id of a tool, `namespace:name`, as search_tools gives it.' } as const

interface Properties {
  readonly [name: string]: JsonObject & { readonly type?: string }
}

type CompactTool = McpTool & {
  readonly inputSchema: { readonly properties: Properties; readonly required: readonly string[] }
}

function tool(
  name: string,
  description: string,
  properties: Properties,
  required: readonly string[],
  reads: boolean,
): CompactTool {
  return {
    name,
    description,
    inputSchema: { type: 'object', properties, required: [...required], additionalProperties: false },
    annotations: { readOnlyHint: reads },
  }
}

/** The compact surface: tools with which a model finds, describes and runs any number of tools. */
export const compactTools: readonly CompactTool[] = [
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
    'Describe the input and output of a tool. Read this before the first call of a tool.',
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

type Answering = (args: JsonObject, identity: Identity, signal: AbortSignal) => Promise<unknown>

const levels: readonly NonNullable<DescribeOptions['level']>[] = ['summary', 'types', 'schema', 'full']

/** Seven tools in place of all, so that the listing stays small however many tools exist. */
export function compactSurface(host: McpHost): Surface {
  const answers: { readonly [name: string]: Answering | undefined } = {
    async search_tools({ query, ...filter }, identity, signal) {
      const { items, cursor } = await host.executor.search(String(query), { ...filter, identity, signal })
      return { tools: items, ...(cursor === undefined ? {} : { cursor }) }
    },
    async describe_tool({ tool, level = 'schema' }, identity) {
      const known = levels.find((one) => one === level)
      if (known === undefined) throw misfit('describe_tool', [['level', `must be one of ${levels.join(', ')}`]])
      return host.executor.describe(String(tool), { level: known, identity })
    },
    list_namespaces: async (_args, identity) => ({ namespaces: await namespacesFor(host, identity) }),
    async list_tool_examples({ tool }, identity) {
      const doc = await host.executor.describe(String(tool), { level: 'full', examples: 20, identity })
      return { tool: doc.id, examples: doc.examples ?? [] }
    },
  }
  const runs: { readonly [name: string]: ((args: JsonObject) => Prepared) | undefined } = {
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
      const run = runs[name]
      if (run !== undefined) return run(args)
      const answer = answers[name]
      if (answer === undefined) throw noTool()
      return { kind: 'answer', answer: async (signal) => asResult(await answer(args, identity, signal)) }
    },
    outputSchema: () => undefined,
    hashFor: () => 'compact',
    state: () => [],
  }
}

/** Refuses arguments that the schema does not allow; nested values are checked where they are used. */
function checkArgs(name: string, args: JsonObject): void {
  const tool = compactTools.find((one) => one.name === name)
  if (tool === undefined) throw noTool()
  const { properties, required } = tool.inputSchema
  const faults = new Map(required.filter((key) => !Object.hasOwn(args, key)).map((key) => [key, 'is missing']))
  for (const [key, value] of Object.entries(args)) {
    const known = Object.hasOwn(properties, key) ? properties[key] : undefined
    if (known === undefined) faults.set(key, 'is not known')
    else if (known.type !== undefined && !fits(known.type, value)) faults.set(key, `must be ${known.type}`)
  }
  if (faults.size > 0) throw misfit(name, [...faults])
}

function misfit(name: string, faults: readonly (readonly [key: string, message: string])[]): ToolError {
  const issues = faults.map(([key, message]) => ({ path: `/${key.slice(0, 100)}`, message }))
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  return new ToolError('INPUT_INVALID', `Invalid arguments of ${name}: ${text}.`, { details: { issues } })
}

function noTool(): ToolError {
  return new ToolError('TOOL_NOT_FOUND', 'No tool has this name.')
}

function fits(type: string, value: Json | undefined): boolean {
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isSafeInteger(value)
  if (type === 'object') return isObject(value)
  return typeof value === type
}

function asResult(output: unknown): CalledTool {
  return { content: [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output }
}

/** The namespaces of the tools visible to a caller, with their number of tools. */
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
