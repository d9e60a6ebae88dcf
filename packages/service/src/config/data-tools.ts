import type { Issue } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { isToolError } from './problem.ts'

/** Tools of a JSON or YAML file: definitions without a function, which run at the backends that they name. */
export function dataTools(list: readonly unknown[], issues: Issue[]): readonly DefinedTool[] {
  return list.flatMap((definition, index) => {
    try {
      return [defineTool(definition as Parameters<typeof defineTool>[0])]
    } catch (error) {
      if (!isToolError(error)) throw error
      issues.push({ path: `/tools/${index}`, message: error.message })
      return []
    }
  })
}
