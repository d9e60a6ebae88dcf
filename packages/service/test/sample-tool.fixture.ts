import { type DefinedTool, defineTool, type ToolDefinition } from '@gantry/core'

const inputSchema = { type: 'object' } as const
type Definition = ToolDefinition<typeof inputSchema>

/** A tool of the namespace `test` with effect `read` and any object as input; `given` overrides this. */
export function sampleTool(given: Pick<Definition, 'name'> & Partial<Definition>): DefinedTool {
  return defineTool({
    namespace: 'test',
    version: '1.0.0',
    description: 'A tool of a test.',
    effect: 'read',
    inputSchema,
    ...given,
  })
}
