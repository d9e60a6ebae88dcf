import { type ProgramLimits, type SandboxLimits, ToolError } from '@gantry/contract'
import type { ProgramNesting } from '../backends/inner-calls.ts'
import { didYouMean } from '../search/near.ts'

/** What a program may use when nobody says otherwise. */
const defaultProgramLimits = {
  toolCalls: 1_000,
  chainSteps: 1_000,
  depth: 4,
  parallel: 64,
  wallMs: 60_000,
  memoryBytes: 67_108_864,
  stdoutBytes: 1_048_576,
} as const satisfies ProgramLimits

export type SetLimits = Required<Omit<ProgramLimits, 'cpuMs'>> & Pick<ProgramLimits, 'cpuMs'>

/** What was asked for, with the defaults for the rest, cut to the host's ceilings; the sandboxes have maxima besides. */
export function programLimits(asked: ProgramLimits = {}, ceilings: ProgramLimits = {}): SetLimits {
  const wanted: SetLimits = { ...defaultProgramLimits, ...asked }
  const cut = Object.entries(ceilings).flatMap(([key, most]) => {
    const limit = wanted[key as keyof ProgramLimits] ?? most
    return most === undefined || limit === undefined ? [] : [[key, Math.min(limit, most)] as const]
  })
  return { ...wanted, ...Object.fromEntries(cut) }
}

/** What is wrong with ceilings from outside, at which key. */
export function ceilingIssues(ceilings: object): { readonly key: string; readonly message: string }[] {
  const known = [...Object.keys(defaultProgramLimits), 'cpuMs']
  return Object.entries(ceilings).flatMap(([key, value]) => {
    if (!known.includes(key)) return [{ key, message: `is not a limit${didYouMean(key, known)}` }]
    return value === undefined || (Number.isSafeInteger(value) && value >= 1)
      ? []
      : [{ key, message: 'must be a whole number of at least 1' }]
  })
}

/** The part that the sandbox holds; what it prints has one limit, however it does. */
export function sandboxLimits({ wallMs, cpuMs, memoryBytes, stdoutBytes }: SetLimits): Partial<SandboxLimits> {
  return {
    ...{ wallMs, memoryBytes, stdoutBytes, stderrBytes: stdoutBytes },
    cpuMs: cpuMs ?? wallMs,
  }
}

/** What a program has left to ask for; overrunning it ends the program, whatever it would catch. */
export interface Budget {
  takeCall(count?: number): void
  takeSteps(count: number): void
  /** Anything but a call, which costs little and not nothing. */
  takeRequest(): void
  /** For the programs that this one runs: their calls are its calls too. */
  readonly place: ProgramNesting
}

/** Searches, sleeps and the like that a program may ask for in all, and what is no question at all. */
const mostOtherRequests = 100_000

/** Throws LIMIT_EXCEEDED when the programs around have no room for another. `overrun` hears of a budget that is used up. */
export function createBudget(
  limits: Pick<SetLimits, 'toolCalls' | 'chainSteps' | 'depth'>,
  around: ProgramNesting | undefined,
  overrun: (error: ToolError) => void,
): Budget {
  const depth = Math.min(limits.depth, around?.depthLeft ?? limits.depth)
  if (depth < 1) throw exceeded('depth', 'Programs stand too deep in one another')
  const left = { toolCalls: limits.toolCalls, chainSteps: limits.chainSteps, questions: mostOtherRequests }
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
    takeRequest: () => take('questions', 1, `The program may ask ${mostOtherRequests} questions that are no calls`),
    place: { depthLeft: depth - 1, takeCall, unattended: around?.unattended },
  }
}

function exceeded(limit: string, message: string): ToolError {
  // How many questions a program may ask is fixed.
  const remedy = limit === 'questions' ? 'ask for less' : `raise limits.${limit}, or ask for less`
  return new ToolError('LIMIT_EXCEEDED', `${message}; ${remedy}.`, { details: { limit } })
}
