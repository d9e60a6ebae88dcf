import { createExecutor, type DefinedTool, defineTool, demoTools, type Executor, type Issue } from 'gantry'

/** `npm run tour`: makes real calls and prints their results, in a few seconds, on any terminal. */
const gantry = createExecutor({
  tools: [...demoTools(), weather()],
  policy: { rules: [{ allow: '*' }, { deny: 'demo:fail', to: 'guest*', reason: 'Guests may not break things.' }] },
})

say('Gantry runs the tool calls of AI agents through one strict pipeline. Everything below is a real call.')
await validated(gantry)
await refused(gantry)
await late(gantry)
await streamed(gantry)
await chained(gantry)
await found(gantry)
await denied(gantry)
await gantry.close()
next()

/** A custom tool in addition to the demo tools. */
function weather(): DefinedTool {
  return defineTool({
    namespace: 'weather',
    name: 'today',
    version: '1.2.0',
    description: 'Tells the weather of a city today.',
    tags: ['forecast'],
    effect: 'read',
    inputSchema: {
      type: 'object',
      properties: { city: { type: 'string', minLength: 1 }, days: { type: 'integer', minimum: 1, maximum: 7 } },
      required: ['city'],
      additionalProperties: false,
    },
    outputSchema: { type: 'object', properties: { sky: { type: 'string' } }, required: ['sky'] },
    run: ({ city }) => ({ city, sky: 'clear', celsius: 21 }),
  })
}

async function validated(gantry: Executor): Promise<void> {
  title('A call, checked on the way in and on the way out', `gantry.run('weather:today', { city: 'Oslo' })`)
  const { status, output, tool, durationMs } = await gantry.run('weather:today', { city: 'Oslo' })
  row('status', status)
  row('output', JSON.stringify(output))
  row('tool', `${tool?.id} ${tool?.version}, ${durationMs} ms with compiling its schemas`)
}

async function refused(gantry: Executor): Promise<void> {
  title('A wrong call never reaches the tool', `gantry.run('weather:today', { town: 'Oslo', days: 9 })`)
  const { error } = await gantry.run('weather:today', { town: 'Oslo', days: 9 })
  row('error', `${error?.code}, stage ${error?.stage}, effect ${error?.effect}`)
  for (const { path, message } of (error?.details?.issues ?? []) as unknown as readonly Issue[]) {
    row('', `${path || '(arguments)'} ${message}`)
  }
}

async function late(gantry: Executor): Promise<void> {
  title('A slow tool ends on time', `gantry.run('demo:sleep', { ms: 60000 }, { timeoutMs: 50 })`)
  const { status, error, durationMs } = await gantry.run('demo:sleep', { ms: 60_000 }, { timeoutMs: 50 })
  row('status', `${status} after ${Math.round(durationMs)} ms`)
  row('error', `${error?.code}: ${error?.message}`)
}

async function streamed(gantry: Executor): Promise<void> {
  title('A tool that streams', `for await (const event of gantry.stream('demo:countdown', { from: 3, delayMs: 20 }))`)
  for await (const event of gantry.stream('demo:countdown', { from: 3, delayMs: 20 })) {
    if (event.kind === 'progress') row(`#${event.id}`, `progress ${event.progress}/${event.total} ${event.message}`)
    else if (event.kind === 'chunk') row(`#${event.id}`, `chunk ${JSON.stringify(event.data)}`)
    else if (event.kind !== 'log') row(`#${event.id}`, `${event.kind} ${JSON.stringify(event.result.output)}`)
  }
}

async function chained(gantry: Executor): Promise<void> {
  title(
    'A chain: steps use what came before',
    `{ tool: 'demo:echo', args: { value: 'sum {{steps.sum.output.result}}, sky {{prev.sky}}' } }`,
  )
  const { status, steps } = await gantry.chain([
    { id: 'sum', tool: 'demo:add', args: { a: 5, b: 3 } },
    { id: 'sky', tool: 'weather:today', args: { city: 'Lima' }, when: { value: '{{prev.result}}', greaterThan: 7 } },
    { id: 'say', tool: 'demo:echo', args: { value: 'sum {{steps.sum.output.result}}, sky {{prev.sky}}' } },
  ])
  for (const { id, state, output } of steps) row(id, `${state} ${JSON.stringify(output)}`)
  row('chain', status)
}

async function found(gantry: Executor): Promise<void> {
  title('Tools are found by words', `gantry.search('add two numbers')`)
  const { items } = await gantry.search('add two numbers', { limit: 3 })
  for (const { id, description } of items) row(id, description)
  const near = await gantry.run('demo:ad')
  row('demo:ad', near.error?.message ?? '')
}

async function denied(gantry: Executor): Promise<void> {
  title('A policy decides on every call', `rules: [{ allow: '*' }, { deny: 'demo:fail', to: 'guest*' }]`)
  const identity = { principal: 'guest-7', tenant: 'visitors', permissions: [] }
  const { status, error } = await gantry.run('demo:fail', { message: 'no' }, { identity })
  row('status', status)
  row('error', `${error?.code}: ${error?.message}`)
}

function next(): void {
  say('\nWhat to try next')
  const commands = [
    `npx gantry run demo:add '{"a":5,"b":3}'`,
    `npx gantry stream demo:countdown '{"from":3}'`,
    'npx gantry search add numbers',
    'npx gantry describe demo:add --level full',
    'npm run examples',
  ]
  for (const command of commands) say(`  ${command}`)
  say('Then read docs/library.md.')
}

function title(text: string, code: string): void {
  say(`\n${text}\n  > ${code}`)
}

function row(name: string, text: string): void {
  say(`  ${name.padEnd(9)} ${text}`)
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
