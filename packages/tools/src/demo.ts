import { setTimeout as delay } from 'node:timers/promises'
import { type DefinedTool, defineTool } from '@gantry/core/internal/tools/tool'

/** Demo tools that `gantry` serves without a configuration. */
export function demoTools(): DefinedTool[] {
  return [add, echo, countdown, sleep, fail]
}

const namespace = 'demo'

const add = defineTool({
  namespace,
  name: 'add',
  description: 'Adds two numbers.',
  tags: ['math'],
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a', 'b'],
    additionalProperties: false,
  },
  outputSchema: { type: 'object', properties: { result: { type: 'number' } }, required: ['result'] },
  examples: [{ title: 'Five and three', args: { a: 5, b: 3 }, output: { result: 8 } }],
  run: ({ a, b }) => ({ result: a + b }),
})

const echo = defineTool({
  namespace,
  name: 'echo',
  description: 'Returns the value it is given.',
  effect: 'read',
  inputSchema: { type: 'object', properties: { value: true }, required: ['value'], additionalProperties: false },
  outputSchema: { type: 'object', properties: { value: true }, required: ['value'] },
  examples: [{ title: 'A word', args: { value: 'hello' }, output: { value: 'hello' } }],
  run: ({ value }) => ({ value }),
})

const countdown = defineTool({
  namespace,
  name: 'countdown',
  description: 'Counts down to zero and reports progress at each step.',
  tags: ['streaming'],
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: {
      from: { type: 'integer', minimum: 0, maximum: 1000 },
      delayMs: { type: 'integer', minimum: 0, maximum: 10_000, description: 'Pause between steps; 50 when absent.' },
    },
    required: ['from'],
    additionalProperties: false,
  },
  examples: [{ title: 'From three', args: { from: 3 } }],
  async *run({ from, delayMs = 50 }, context) {
    for (let left = from; left > 0; left--) {
      context.progress(from - left, from, `${left} left`)
      yield left
      await delay(delayMs, undefined, { signal: context.signal })
    }
    context.progress(from, from, 'done')
    return { counted: from }
  },
})

const sleep = defineTool({
  namespace,
  name: 'sleep',
  description: 'Waits for a time, then says how long it was.',
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { ms: { type: 'integer', minimum: 0, maximum: 600_000 } },
    required: ['ms'],
    additionalProperties: false,
  },
  examples: [{ title: 'A tenth of a second', args: { ms: 100 }, output: { slept: 100 } }],
  async run({ ms }, { signal }) {
    await delay(ms, undefined, { signal })
    return { slept: ms }
  },
})

const fail = defineTool({
  namespace,
  name: 'fail',
  // The tool fails on purpose.
  breaker: false,
  description: 'Fails with the message it is given.',
  effect: 'read',
  inputSchema: {
    type: 'object',
    properties: { message: { type: 'string' } },
    required: ['message'],
    additionalProperties: false,
  },
  examples: [{ title: 'A failure', args: { message: 'out of luck' } }],
  run({ message }) {
    throw new Error(message)
  },
})
