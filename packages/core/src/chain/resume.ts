import { type Issue, type Json, type StepResult, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { clip } from '../ids/quote.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import { didYouMean } from '../search/near.ts'
import type { PlannedStep } from './context.ts'
import { isFinished } from './step.ts'

/** The steps of an interrupted run, and where to resume it. */
export interface Resume {
  /** Id of the first step to run; by default the first one that is not finished. */
  readonly from?: string
  /** `steps` of the earlier ChainResult. */
  readonly steps: readonly StepResult[]
}

/** State taken over from an earlier run. */
export interface Resumed {
  readonly finished: readonly StepResult[]
  /** The partial result of the first step to run; only when `from` does not name it. */
  readonly partial: StepResult | undefined
}

const states = ['ok', 'failed', 'skipped', 'pending']
/** The pipeline limited these outputs already; this only refuses malformed ones. */
const bounds = { bytes: 268_435_456, depth: 512, nodes: 10_000_000 }

/** Reads the finished steps of an earlier run. Throws CHAIN_INVALID when it is not of the same chain. */
export function readResume(plan: readonly PlannedStep[], resume: Resume | undefined): Resumed {
  if (resume === undefined) return { finished: [], partial: undefined }
  const given = readSteps(resume.steps)
  const issues: Issue[] = []
  if (given.length > plan.length)
    issues.push({ path: '', message: `has ${given.length} steps, the chain ${plan.length}` })
  given.forEach((result, index) => {
    const step = plan[index]
    if (step !== undefined) matchStep(step, result, `/${index}`, issues)
  })
  const last = given.findLastIndex((step) => step.state !== 'pending')
  const open = plan.findIndex((step, index) => !isDone(step, given[index], index === last))
  const firstOpen = open === -1 ? plan.length : open
  const from = resume.from === undefined ? firstOpen : plan.findIndex((step) => step.id === resume.from)
  if (from === -1) {
    const known = plan.map((step) => step.id)
    issues.push({ path: '/from', message: `names no step of the chain${didYouMean(clip(String(resume.from)), known)}` })
  } else if (from > firstOpen) {
    issues.push({ path: '/from', message: `skips step "${plan[firstOpen]?.id}", which is not finished` })
  }
  if (issues.length > 0) throw mismatch(issues)
  return {
    finished: given.slice(0, from).map(taken),
    partial: resume.from === undefined && given[from] !== undefined ? taken(given[from]) : undefined,
  }
}

function readSteps(steps: unknown): readonly StepResult[] {
  let copied: Json
  try {
    copied = copyJson(steps, { limits: bounds })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw mismatch([{ path: error.path, message: error.message }], error)
  }
  const read: readonly unknown[] = Array.isArray(copied) ? copied : [null]
  if (read.every(isStepResult)) return read
  throw mismatch([{ path: '', message: 'must be the steps of a ChainResult' }])
}

/** Checks the members that are read; the others are only returned. */
function isStepResult(value: unknown): value is StepResult {
  if (!isObject(value)) return false
  const { id, state, output, steps, elements } = value
  return (
    typeof id === 'string' &&
    states.includes(String(state)) &&
    output !== undefined &&
    (steps === undefined || (Array.isArray(steps) && steps.every(isStepResult))) &&
    (elements === undefined || Array.isArray(elements))
  )
}

function matchStep(step: PlannedStep, result: StepResult, path: string, issues: Issue[]): void {
  if (result.id !== step.id)
    issues.push({ path: `${path}/id`, message: `is "${clip(result.id)}"; the chain has "${step.id}"` })
  if (step.kind === 'call') {
    if (result.tool === step.tool) return
    issues.push({
      path: `${path}/tool`,
      message: `is "${clip(String(result.tool))}"; the chain has "${clip(step.tool)}"`,
    })
    return
  }
  if (result.steps?.length !== step.members.length) {
    issues.push({
      path: `${path}/steps`,
      message: `has ${result.steps?.length ?? 0} members, the chain ${step.members.length}`,
    })
  }
  result.steps?.forEach((member, index) => {
    const planned = step.members[index]
    if (planned !== undefined) matchStep(planned, member, `${path}/steps/${index}`, issues)
  })
}

/** Whether a step need not run again: the chain continued after it, or it is finished. */
function isDone(step: PlannedStep, result: StepResult | undefined, last: boolean): boolean {
  if (result === undefined || result.state === 'pending') return false
  if (!last) return true
  return step.kind === 'call' ? isFinished(step, result) : result.state === 'ok' || result.state === 'skipped'
}

/** The earlier step without its calls. */
function taken(step: StepResult): StepResult {
  const members = step.steps && { steps: step.steps.map(taken) }
  return { ...step, ...members, results: [], durationMs: 0 }
}

function mismatch(issues: readonly Issue[], cause?: unknown): ToolError {
  const [first] = issues
  const where = first?.path === '' ? 'it' : first?.path
  return new ToolError('CHAIN_INVALID', `The chain cannot be resumed: in resume, ${where} ${first?.message}.`, {
    details: { issues },
    ...(cause !== undefined && { cause }),
  })
}
