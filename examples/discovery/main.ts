// How tools are found and described: search, toolsets, versions, ranges, aliases, deprecation, pages, levels.
import { createExecutor, defineTool } from 'gantry'

const inputSchema = { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] } as const
const tools = [
  defineTool({
    namespace: 'github',
    name: 'create_issue',
    version: '1.4.0',
    description: 'Creates an issue in a repository.',
    tags: ['issues'],
    aliases: ['github:new_issue'],
    deprecated: { message: 'Leaves labels out.', replacement: 'github:create_issue:2.0.0' },
    inputSchema,
    run: () => 'one',
  }),
  defineTool({
    namespace: 'github',
    name: 'create_issue',
    version: '2.0.0',
    description: 'Creates an issue in a repository, with labels.\n\nNeeds write access to the repository.',
    tags: ['issues'],
    docs: '# Labels\nLabels that do not exist yet are created.',
    examples: [{ title: 'A bug', args: { title: 'Crash on start' } }],
    inputSchema,
    run: () => 'two',
  }),
  defineTool({
    namespace: 'github',
    name: 'close_issue',
    description: 'Closes an issue.',
    tags: ['issues'],
    inputSchema,
    run: () => 'closed',
  }),
  defineTool({
    namespace: 'mail',
    name: 'send',
    description: 'Sends a message to a person.',
    tags: ['outbound'],
    inputSchema,
    run: () => 'sent',
  }),
]
const gantry = createExecutor({ tools })

const found = await gantry.search('create an issue')
console.log('search:', found.items.map(({ id, version }) => `${id} ${version}`).join(', '))

const toolset = { allow: ['github:*'], deny: ['github:close_issue'] }
const narrowed = await gantry.search('issue', { toolset })
console.log('in the toolset:', narrowed.items.map(({ id }) => id).join(', '))

for (const id of ['github:create_issue', 'github:create_issue:^1', 'github:new_issue', 'github:create_issue:1.x']) {
  const { output, tool, warnings } = await gantry.run(id, { title: 'x' })
  console.log(`run ${id} -> ${tool?.version} ${JSON.stringify(output)}`, warnings[0]?.message ?? '')
}
const missing = await gantry.run('github:create_issue:^3', { title: 'x' })
console.log('run ^3 ->', missing.error?.message)

let cursor: string | undefined
do {
  const page = gantry.tools({ limit: 2, ...(cursor === undefined ? {} : { cursor }) })
  console.log('page:', page.items.map(({ id }) => id).join(', '))
  cursor = page.cursor
} while (cursor !== undefined)

const summary = await gantry.describe('github:create_issue')
console.log('summary:', JSON.stringify(summary))
for (const level of ['schema', 'full'] as const) {
  const doc = await gantry.describe('github:create_issue', { level })
  console.log(`${level}:`, Object.keys(doc).join(' '))
}
const short = await gantry.describe('github:create_issue', { level: 'full', maxTokens: 120 })
console.log('within 120 tokens, left out:', short.omitted.join(' '))

await gantry.close()
