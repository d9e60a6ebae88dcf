import { type DefinedTool, defineTool } from 'gantry'

export const inputSchema = {
  type: 'object',
  properties: { a: { type: 'number' }, b: { type: 'number' } },
  required: ['a', 'b'],
  additionalProperties: false,
} as const

export const outputSchema = {
  type: 'object',
  properties: { result: { type: 'number' } },
  required: ['result'],
} as const

const definition = {
  namespace: 'math',
  description: 'Adds two numbers.',
  effect: 'read',
  inputSchema,
  outputSchema,
} as const

/** The tool of every measured call. */
export function addTools(): DefinedTool[] {
  return [
    defineTool({ ...definition, name: 'add', run: ({ a, b }) => ({ result: a + b }) }),
    defineTool({ ...definition, name: 'add_async', run: async ({ a, b }) => ({ result: a + b }) }),
  ]
}

export interface Sum {
  readonly a: number
  readonly b: number
}

/** The bare function. */
export async function add({ a, b }: Sum): Promise<{ readonly result: number }> {
  return { result: a + b }
}
