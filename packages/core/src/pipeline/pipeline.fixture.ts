import type { Identity, Result } from '@gantry/contract'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import type { ToolContext } from '../backends/backend.ts'
import { type DefinedTool, defineTool, type ToolDefinition } from '../tools/tool.ts'

export const anything = { type: 'object' } as const
export const alice: Identity = { principal: 'alice', tenant: 'acme', permissions: ['files:read'] }

/** A tool `test:it` with any arguments. */
export function tool(
  run: (args: object, context: ToolContext) => unknown,
  rest: Partial<ToolDefinition<typeof anything>> = {},
): DefinedTool {
  return defineTool({ namespace: 'test', name: 'it', description: 'It.', inputSchema: anything, run, ...rest })
}

/** Runs the tool once in an executor of its own. */
export async function runIt(defined: DefinedTool, args: unknown = {}, rest: ExecutorOptions = {}): Promise<Result> {
  const gantry = createExecutor({ tools: [defined], ...rest })
  const result = await gantry.run('test:it', args)
  await gantry.close()
  return result
}

export const never = (): Promise<never> => new Promise(() => undefined)
