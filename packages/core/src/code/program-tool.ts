import type { Tool } from '@gantry/contract'
import type { Catalog } from '../catalogs/catalog.ts'
import { memoryCatalog } from '../catalogs/memory.ts'
import { type DefinedTool, defineTool } from '../tools/tool.ts'

/** The tool that runs programs over tools. */
export const programTool = 'code:program'

const count = { type: 'integer', minimum: 1 } as const

/** A sandbox has its own clock; this one only has to be longer. */
const timeoutMs = 3_600_000

export const programDefinition: DefinedTool = defineTool({
  namespace: 'code',
  name: 'program',
  title: 'Run a program over tools',
  description:
    'Runs a program that calls tools, with loops, branches and parallel calls in plain code, and gives what it returns.',
  tags: ['code', 'program', 'workflow', 'javascript', 'typescript', 'python'],
  docs: [
    'In JavaScript and TypeScript: `await tools.namespace.name(args)` or `await run("namespace:name", args)` gives the',
    'output of a call, or throws an error with `code`, `message`, `retryable` and `details`. `chain(steps, {input})`,',
    '`search(words, {limit})`, `describe(id, {level})`, `examples(id)`, `print(...)`, `sleep(ms)`, `artifacts.put(name,',
    'content)` and `artifacts.get(id)` are there too, and so is `await` and `return` at the top level. Python has the same',
    'names. Every call is made in the name of the caller. Nothing else can be reached: no network, no files of the host.',
  ].join(' '),
  backends: [{ kind: 'program' }],
  effect: 'once',
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      code: { type: 'string', maxLength: 1_048_576, description: 'The program; its `return` is the output.' },
      language: {
        enum: ['javascript', 'typescript', 'python', 'workflow'],
        description: 'typescript when absent.',
      },
      limits: {
        type: 'object',
        description: 'Ceilings for this run.',
        properties: {
          toolCalls: { ...count, description: 'Calls in all, those of chains included; 1000 when absent.' },
          chainSteps: { ...count, description: 'Steps of chains in all; 1000 when absent.' },
          depth: { ...count, description: 'How deep programs may stand in programs; 4 when absent.' },
          parallel: { ...count, description: 'Calls at a time, others wait; 64 when absent.' },
          wallMs: { ...count, description: '60000 when absent.' },
          cpuMs: count,
          memoryBytes: { ...count, description: '64 MiB when absent.' },
          stdoutBytes: { ...count, description: 'What it may print; 1 MiB when absent.' },
        },
        additionalProperties: false,
      },
      check: { type: 'boolean', description: 'Check the program against the schemas of its tools before it runs.' },
    },
    required: ['code'],
    additionalProperties: false,
  },
  examples: [
    {
      title: 'Two calls at a time',
      args: {
        code: 'const [a, b] = await Promise.all([tools.demo.add({ a: 1, b: 2 }), tools.demo.add({ a: 3, b: 4 })])\nreturn a.result + b.result',
      },
      output: 10,
    },
    {
      title: 'A call that may fail',
      args: {
        code: "try {\n  return await tools.demo.fail({ message: 'no' })\n} catch (error) {\n  return { code: error.code }\n}",
        language: 'javascript',
      },
      output: { code: 'BACKEND_FAILED' },
    },
  ],
})

/**
 * The same catalog with one more tool, which is found by its id and neither listed nor searched; a tool of that name in
 * the catalog itself takes its place.
 */
export function withHidden(catalog: Catalog, tool: Tool): Catalog {
  const key = `${tool.namespace}:${tool.name}`
  let hidden: Catalog | undefined
  const hiddenCatalog = (): Catalog => {
    if (hidden !== undefined) return hidden
    hidden = memoryCatalog()
    hidden.register(tool)
    return hidden
  }
  const catalogFor = (id: string): Catalog => {
    const isMeant = typeof id === 'string' && id.startsWith(key) && (id.length === key.length || id[key.length] === ':')
    return isMeant && catalog.versions(key).length === 0 ? hiddenCatalog() : catalog
  }
  return {
    register: (added, options) => catalog.register(added, options),
    update: (changed, options) => catalog.update(changed, options),
    unregister: (id) => catalog.unregister(id),
    find: (id, onlooker) => catalogFor(id).find(id, onlooker),
    versions: (id) => catalogFor(id).versions(id),
    list: (query) => catalog.list(query),
    search: (query, options) => catalog.search(query, options),
    namespaces: () => catalog.namespaces(),
    get hash() {
      return catalog.hash
    },
    get size() {
      return catalog.size
    },
    subscribe: (listener) => catalog.subscribe(listener),
  }
}
