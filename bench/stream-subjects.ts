import { createExecutor, defineTool } from 'gantry'
import type { Setup } from './measure.ts'

export const chunkCount = 1_000

async function* words(): AsyncGenerator<string, { readonly count: number }> {
  for (let n = 0; n < chunkCount; n += 1) yield 'word '
  return { count: chunkCount }
}

const tool = defineTool({
  namespace: 'text',
  name: 'words',
  description: 'Streams words.',
  effect: 'read',
  inputSchema: { type: 'object' },
  run: words,
})

async function drain(events: AsyncIterable<unknown>): Promise<number> {
  let count = 0
  for await (const _ of events) count += 1
  return count
}

export const subjects: { readonly [name: string]: Setup } = {
  bare: () => () => drain(words()),
  stream: async () => {
    const gantry = createExecutor({ tools: [tool] })
    const run = (): Promise<number> => drain(gantry.stream('text:words'))
    if ((await run()) !== chunkCount + 1) throw new Error('the stream lost an event')
    return run
  },
}
