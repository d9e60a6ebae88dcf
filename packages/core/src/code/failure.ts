import { ToolError } from '@gantry/contract'
import type { Outcome, ProgramFault } from '../runtimes/runtime.ts'
import { codeFrame } from './frame.ts'

const longestMessage = 2_000
const longestStack = 4_000

/** Why a program that came to its end did not end well; undefined when it did. */
export function failureOf({ hit, fault, exit }: Outcome, source: string): ToolError | undefined {
  const details = { limit: hit }
  if (hit === 'wallMs') return new ToolError('TIMEOUT', 'The program did not end within limits.wallMs.', { details })
  if (hit !== undefined) return new ToolError('LIMIT_EXCEEDED', `The program was ended by limits.${hit}.`, { details })
  if (fault !== undefined) return faultError(fault, source)
  if ('code' in exit && exit.code === 0) return undefined
  const how = 'code' in exit ? `ended with exit code ${exit.code}` : `was ended by ${exit.signal}`
  return new ToolError('CODE_FAILED', `The program ${how}.`, { details: { ...exit } })
}

/** A fault with its place in what the author wrote. */
export function faultError(
  { kind, name, message, line, column, stack, error }: ProgramFault,
  source: string,
): ToolError {
  const frame = line === undefined ? undefined : codeFrame(source, line, column)
  const where = line === undefined ? '' : ` (line ${line}${column === undefined ? '' : `, column ${column}`})`
  const details = {
    ...(line === undefined ? {} : { line }),
    ...(column === undefined ? {} : { column }),
    ...(frame === undefined ? {} : { frame }),
    ...(stack === undefined ? {} : { stack: stack.slice(0, longestStack) }),
    ...(error === undefined ? {} : { error }),
  }
  const text = `${name.slice(0, 100)}: ${message.slice(0, longestMessage)}${where}`
  if (kind === 'compile') return new ToolError('CODE_INVALID', text, { details, effect: 'none' })
  return new ToolError('CODE_FAILED', text, { details })
}
