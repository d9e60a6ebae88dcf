import type { JsonObject } from '@gantry/contract'
import type { McpTool } from './tool-list.ts'

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
