import { type DefinedTool, defineTool } from '../tools/tool.ts'

/** The tool that runs programs over tools. */
export const programTool = 'code:program'

const count = { type: 'integer', minimum: 1 } as const

/** Longer than any `wallMs`, because the sandbox enforces the timeout of a program. */
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
