import { ToolError } from '@gantry/contract'
import { codeFrame } from '../frame.ts'
import type { Place } from './tokens.ts'

/** What is wrong with a workflow, and where. */
export function wrong(source: string, { line, column }: Place, message: string): ToolError {
  const frame = codeFrame(source, line, column)
  return new ToolError('CODE_INVALID', `The workflow is wrong at line ${line}, column ${column}: ${message}`, {
    details: { line, column, ...(frame === undefined ? {} : { frame }) },
    effect: 'none',
  })
}
