import { ToolError } from '@gantry/contract'
import type { ProgramPlace } from '../backends/inner-doors.ts'
import type { SetLimits } from './limits.ts'

/** What a program has left to ask for; overrunning it ends the program, whatever it would catch. */
export interface Budget {
  takeCall(count?: number): void
  takeSteps(count: number): void
  /** Anything but a call, which costs little and not nothing. */
  takeQuestion(): void
  /** For the programs that this one runs: their calls are its calls too. */
  readonly place: ProgramPlace
}

/** Searches, sleeps and the like that a program may ask for in all, and what is no question at all. */
const mostQuestions = 100_000

/** Throws LIMIT_EXCEEDED when the programs around have no room for another. `overrun` hears of a budget that is used up. */
export function createBudget(
  limits: Pick<SetLimits, 'toolCalls' | 'chainSteps' | 'depth'>,
  around: ProgramPlace | undefined,
  overrun: (error: ToolError) => void,
): Budget {
  const depth = Math.min(limits.depth, around?.depthLeft ?? limits.depth)
  if (depth < 1) throw exceeded('depth', 'Programs stand too deep in one another')
  const left = { toolCalls: limits.toolCalls, chainSteps: limits.chainSteps, questions: mostQuestions }
  const take = (what: keyof typeof left, count: number, message: string): void => {
    left[what] -= count
    if (left[what] >= 0) return
    const error = exceeded(what, message)
    overrun(error)
    throw error
  }
  const takeCall = (count = 1): void => {
    take('toolCalls', count, `The program may make ${limits.toolCalls} calls, and this was one more`)
    around?.takeCall(count)
  }
  return {
    takeCall,
    takeSteps: (count) => take('chainSteps', count, `The chains of the program may have ${limits.chainSteps} steps`),
    takeQuestion: () => take('questions', 1, `The program may ask ${mostQuestions} questions that are no calls`),
    place: { depthLeft: depth - 1, takeCall, unattended: around?.unattended },
  }
}

function exceeded(limit: string, message: string): ToolError {
  // How many questions a program may ask is fixed.
  const remedy = limit === 'questions' ? 'ask for less' : `raise limits.${limit}, or ask for less`
  return new ToolError('LIMIT_EXCEEDED', `${message}; ${remedy}.`, { details: { limit } })
}
