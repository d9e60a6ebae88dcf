import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importOpenapi } from '@gantry/openapi'
import { createExecutor, defineTool, type Executor, type Tool } from 'gantry'
import { countTokens } from 'gpt-tokenizer'
import { generateTools } from '../../bench/generated-tools.ts'
import { compactTools } from '../../packages/mcp/src/server/compact-surface.ts'
import { createToolWriter } from '../../packages/mcp/src/server/tool-list.ts'

const root = join(import.meta.dirname, '../..')
const documents = ['3.0/json/star-trek.json', '3.0/json/readme-legacy.json', '3.1/json/readme.json']
const sizes = [500, 5_000]
const orders = 20

/** docs/tokens.md: how many tokens a model reads, counted on the output of our APIs. The same tools give the same page. */
export async function tokensPage(): Promise<string> {
  const rows: string[] = []
  let task: Task | undefined
  for (const size of sizes) {
    const executor = createExecutor({ tools: [...shopTools(), ...otherTools(size - 2)] })
    const counts = await countsOf(executor)
    task ??= await taskOf(executor)
    rows.push(...tableRows(size, counts))
    await executor.close()
  }
  if (task === undefined) throw new Error('There is no catalog to count.')
  return page(rows, task)
}

interface Counts {
  readonly listing: number
  /** The definitions of the compact surface. */
  readonly surface: number
  readonly search: number
  readonly describe: number
  readonly declarations: number
  readonly program: number
}

const words = 'list orders and get an invoice'
const program = `const { orders } = await tools.shop.list_orders({ status: 'open' })
const invoices = await Promise.all(orders.map(({ id }) => tools.shop.get_invoice({ order: id })))
return invoices.reduce((sum, { total }) => sum + total, 0)`

async function countsOf(executor: Executor): Promise<Counts> {
  const writer = createToolWriter({ tasks: false })
  const listing: unknown[] = []
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const found = executor.tools({ limit: 1_000, cursor })
    listing.push(...found.items.map((entry) => writer.write(entry, '2026-07-28')))
    cursor = found.cursor
  }
  const { items } = await executor.search(words, { limit: 10 })
  const described = (level: 'schema' | 'types') =>
    Promise.all(['shop:list_orders', 'shop:get_invoice'].map((id) => executor.describe(id, { level })))
  return {
    listing: tokens({ tools: listing }),
    surface: tokens({ tools: compactTools }),
    search: tokens({ tools: items }),
    describe: tokens(await described('schema')),
    declarations: tokens(await described('types')),
    program: tokens({ code: program }),
  }
}

interface Task {
  readonly calls: number
  readonly byCalls: number
  readonly byProgram: number
  readonly output: unknown
}

/** One task, call by call through the model and as a program. Counts the tokens that the model reads, without definitions. */
async function taskOf(executor: Executor): Promise<Task> {
  let byCalls = 0
  const call = async (tool: string, args: object): Promise<unknown> => {
    const { output, error } = await executor.run(tool, args)
    if (error !== undefined) throw new Error(error.message)
    byCalls += tokens({ tool, args }) + tokens(output)
    return output
  }
  const found = (await call('shop:list_orders', { status: 'open' })) as { readonly orders: readonly { id: string }[] }
  for (const { id } of found.orders) await call('shop:get_invoice', { order: id })
  const result = await executor.code(program)
  if (result.error !== undefined) throw new Error(result.error.message)
  const byProgram = tokens({ code: program }) + tokens(result.output)
  return { calls: found.orders.length + 1, byCalls, byProgram, output: result.output }
}

function tokens(value: unknown): number {
  return countTokens(JSON.stringify(value))
}

function tableRows(size: number, { listing, surface, search, describe, declarations, program }: Counts): string[] {
  const searched = surface + search + describe
  const coded = surface + search + declarations + program
  const row = (what: string, parts: string, sum: number): string =>
    `| ${number(size)} | ${what} | ${parts} | ${number(sum)} | ${number(Math.round(listing / sum))}× |`
  return [
    row('full listing (`tools/list`)', 'every tool with its schemas', listing),
    row('search and describe', `${surface} the compact tools + ${search} ten hits + ${describe} two tools`, searched),
    row('code mode', `${surface} + ${search} + ${declarations} two declarations + ${program} the program`, coded),
  ]
}

function number(value: number): string {
  return value.toLocaleString('en-US')
}

/** The two tools that a task needs, among many others. */
function shopTools() {
  const id = { type: 'string' } as const
  return [
    defineTool({
      namespace: 'shop',
      name: 'list_orders',
      description: 'Lists the orders of the shop, newest first.',
      effect: 'read',
      inputSchema: {
        type: 'object',
        properties: { status: { enum: ['open', 'paid', 'shipped'], description: 'Only orders of this status.' } },
        additionalProperties: false,
      },
      outputSchema: {
        type: 'object',
        properties: {
          orders: {
            type: 'array',
            items: { type: 'object', properties: { id, customer: id, placedAt: id, status: id }, required: ['id'] },
          },
        },
        required: ['orders'],
      },
      run: ({ status = 'open' }: { status?: string }) => ({
        orders: Array.from({ length: orders }, (_, index) => ({
          ...{
            id: `ord_${1000 + index}`,
            customer: `cus_${200 + index * 7}`,
            placedAt: '2026-11-02T09:15:00Z',
            status,
          },
        })),
      }),
    }),
    defineTool({
      namespace: 'shop',
      name: 'get_invoice',
      description: 'Gets the invoice of an order.',
      effect: 'read',
      inputSchema: { type: 'object', properties: { order: id }, required: ['order'], additionalProperties: false },
      outputSchema: { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] },
      run: ({ order }: { order: string }) => ({
        order,
        currency: 'EUR',
        issuedAt: '2026-11-02T09:15:04Z',
        total: 40 + (Number(order.slice(4)) % 7),
        lines: [1, 2, 3].map((line) => ({ line, article: `art_${line}`, quantity: line, price: 4.5 * line })),
      }),
    }),
  ]
}

/** Tools of published OpenAPI documents, then made-up ones, the same in every run. */
function otherTools(count: number) {
  const published = documents.flatMap((file, index) => {
    const document = JSON.parse(readFileSync(join(root, 'node_modules/@readme/oas-examples', file), 'utf8'))
    return importOpenapi(document, { name: `api${index}`, baseUrl: 'https://api.example.com' }).tools
  })
  const made = generateTools(Math.max(0, count - published.length))
  return [...published, ...made].slice(0, count).map(idle)
}

/** Never called here. */
function idle({ backends: _backends, ...tool }: Tool) {
  return defineTool({ ...tool, run: () => null } as never)
}

function page(rows: readonly string[], { calls, byCalls, byProgram, output }: Task): string {
  return `# Tokens

What a model has to read before it can use a tool, in tokens of \`o200k_base\` (\`gpt-tokenizer\`), counted on the text that our
own APIs send. Written by \`npm run docs -- --write\` (\`scripts/docs/tokens-page.ts\`); \`npm run docs\` says when it is out of date.

The tools are 210 of published OpenAPI documents, made-up ones like those of a large company, and two that a task needs:
\`shop:list_orders\` and \`shop:get_invoice\`.

| tools | the model reads | parts | tokens | listing ÷ this |
|---|---|---|---|---|
${rows.join('\n')}

What is searched for grows with the task, not with the catalog. Beyond that, results pass the model too when it makes each
call itself. The total of all open orders takes ${calls} calls:

| how | tokens of calls and results |
|---|---|
| call by call | ${number(byCalls)} |
| by a program ([code mode](code-mode.md)) | ${number(byProgram)} |

The program, whose value is \`${JSON.stringify(output)}\`:

\`\`\`javascript
${program}
\`\`\`
`
}
