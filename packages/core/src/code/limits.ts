import { type Json, type ProgramLimits, type SandboxLimits, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { ProgramNesting } from '../backends/backend.ts'
import { type Check, whole } from '../options/option.ts'
import { optionsCheck } from '../options/options.ts'

/** Default limits of a program. */
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

/** The requested limits over the defaults, lowered to the host's ceilings; sandboxes have maxima of their own. */
export function programLimits(asked: ProgramLimits = {}, ceilings: ProgramLimits = {}): SetLimits {
  const limits: { -readonly [Key in keyof SetLimits]: SetLimits[Key] } = { ...defaultProgramLimits, ...asked }
  for (const name of limitNames) {
    const ceiling = ceilings[name]
    if (ceiling !== undefined) limits[name] = Math.min(limits[name] ?? ceiling, ceiling)
  }
  return limits
}

const limitNames = [
  'toolCalls',
  'chainSteps',
  'depth',
  'parallel',
  'wallMs',
  'cpuMs',
  'memoryBytes',
  'stdoutBytes',
] as const satisfies readonly (keyof ProgramLimits)[]

/** The limits in the arguments of a program, which fit the schema of its tool. */
export function readProgramLimits(given: Json | undefined): ProgramLimits {
  const limits: { -readonly [Key in keyof ProgramLimits]: ProgramLimits[Key] } = {}
  if (!isObject(given)) return limits
  for (const name of limitNames) {
    const value = given[name]
    if (typeof value === 'number') limits[name] = value
  }
  return limits
}

/** Ceilings for the limits of programs, as the options of an executor give them. */
export const programLimitsCheck: Check = optionsCheck<ProgramLimits>({
  members: {
    toolCalls: whole(1),
    chainSteps: whole(1),
    depth: whole(1),
    parallel: whole(1),
    wallMs: whole(1),
    cpuMs: whole(1),
    memoryBytes: whole(1),
    stdoutBytes: whole(1),
  },
  noun: 'a limit',
})

/** The limits that the sandbox enforces. Standard output and error have the same limit. */
export function sandboxLimits({ wallMs, cpuMs, memoryBytes, stdoutBytes }: SetLimits): Partial<SandboxLimits> {
  return { wallMs, memoryBytes, stdoutBytes, stderrBytes: stdoutBytes, cpuMs: cpuMs ?? wallMs }
}

/** The remaining budget of a program. Exceeding it ends the program, and the program cannot catch that. */
export interface Budget {
  takeCall(count?: number): void
  takeSteps(count: number): void
  /** Any request but a call. */
  takeRequest(): void
  /** The budget of nested programs, whose calls count against this one. */
  readonly place: ProgramNesting
}

/** Searches, sleeps and the like that a program may request in all, malformed requests included. */
const mostOtherRequests = 100_000

/** Throws LIMIT_EXCEEDED when programs are nested too deep. `overrun` is called when a budget is used up. */
export function createBudget(
  limits: Pick<SetLimits, 'toolCalls' | 'chainSteps' | 'depth'>,
  around: ProgramNesting | undefined,
  overrun: (error: ToolError) => void,
): Budget {
  const depth = Math.min(limits.depth, around?.depthLeft ?? limits.depth)
  if (depth < 1) throw exceeded('depth', 'Programs are nested too deep')
  const left = { toolCalls: limits.toolCalls, chainSteps: limits.chainSteps, questions: mostOtherRequests }
  const take = (what: keyof typeof left, count: number, message: string): void => {
    left[what] -= count
    if (left[what] >= 0) return
    const error = exceeded(what, message)
    overrun(error)
    throw error
  }
  const takeCall = (count = 1): void => {
    take('toolCalls', count, `The program may make at most ${limits.toolCalls} calls`)
    around?.takeCall(count)
  }
  return {
    takeCall,
    takeSteps: (count) => take('chainSteps', count, `The chains of the program may have ${limits.chainSteps} steps`),
    takeRequest: () => take('questions', 1, `The program may make ${mostOtherRequests} requests that are not calls`),
    place: { depthLeft: depth - 1, takeCall, unattended: around?.unattended },
  }
}

function exceeded(limit: string, message: string): ToolError {
  // The number of other requests is fixed.
  const remedy = limit === 'questions' ? 'make fewer requests' : `raise limits.${limit}, or make fewer requests`
  return new ToolError('LIMIT_EXCEEDED', `${message}; ${remedy}.`, { details: { limit } })
}
