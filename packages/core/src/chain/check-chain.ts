import type { Issue, Json, JsonObject, RetryRule } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { clip } from '../ids/quote.ts'
import { copyJson } from '../json/copy.ts'
import { isObject } from '../json/kinds.ts'
import { JsonError } from '../json/limits.ts'
import { didYouMean } from '../search/near.ts'
import { compileCondition } from './condition.ts'
import type { PlannedCall, PlannedGroup, PlannedStep } from './context.ts'
import { checkIds, countSteps, type Identified, identify } from './identify.ts'
import type { ChainLimits } from './limits.ts'
import { referenceFault, type Sight } from './reference.ts'
import { compileTemplate, type Template, type Visitor } from './template.ts'

type CheckedChain =
  | { readonly ok: true; readonly plan: readonly PlannedStep[] }
  | { readonly ok: false; readonly issues: readonly Issue[] }

const callKeys = 'id tool args usePrevious when forEach concurrency timeoutMs retry onError'.split(' ')
const groupKeys = 'id parallel when concurrency'.split(' ')
const mostIssues = 100
const longestPath = 1_000
/** The longest timer Node can set. */
const longestMs = 2_147_483_647

/** Ends a check that has found enough, so that a chain full of faults costs no more than a few of them. */
class EnoughIssues extends Error {}

/** Reads a chain from outside into a plan, or lists everything that is wrong with it. Nothing has run by then. */
export function checkChain(steps: unknown, limits: ChainLimits): CheckedChain {
  const issues: Issue[] = []
  const issue = (path: string, message: string): void => {
    issues.push({ path: clip(path, longestPath), message })
    if (issues.length === mostIssues) throw new EnoughIssues()
  }
  try {
    const plan = readSteps(steps, limits, issue)
    return issues.length === 0 ? { ok: true, plan } : { ok: false, issues }
  } catch (error) {
    if (error instanceof EnoughIssues) return { ok: false, issues }
    throw error
  }
}

function readSteps(steps: unknown, limits: ChainLimits, issue: Visitor['issue']): PlannedStep[] {
  if (!Array.isArray(steps)) issue('', 'must be a list of steps')
  else if (tooMany(steps.length, limits, issue)) return []
  const copied = plainCopy(steps, limits, issue)
  if (copied === undefined) return []
  const identified = identify(copied)
  if (tooMany(countSteps(copied), limits, issue)) return []
  const all = checkIds(identified, issue)
  const earlier = new Set<string>()
  return identified.map((each, index) => {
    const sight = { all, earlier, hasPrevious: index > 0, depth: limits.referenceDepth }
    const planned = planStep(each, { ...sight, siblings: new Set(), self: each.id, inForEach: false }, limits, issue)
    for (const { id } of [each, ...each.members]) earlier.add(id)
    return planned
  })
}

function tooMany(count: number, limits: ChainLimits, issue: Visitor['issue']): boolean {
  if (count <= limits.steps) return false
  issue('', `has ${count} steps; at most ${limits.steps} are allowed`)
  return true
}

/** A copy that the caller cannot change while the chain runs. */
function plainCopy(steps: unknown, limits: ChainLimits, issue: Visitor['issue']): Json[] | undefined {
  try {
    const bounds = { bytes: limits.chainBytes, depth: limits.chainDepth, nodes: limits.chainBytes }
    const copied = copyJson(steps, { limits: bounds })
    return Array.isArray(copied) ? copied : undefined
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    issue(error.path, error.message)
    return undefined
  }
}

function planStep(each: Identified, sight: Sight, limits: ChainLimits, issue: Visitor['issue']): PlannedStep {
  const { step } = each
  return isObject(step) && step.parallel !== undefined
    ? planGroup(each, step, sight, limits, issue)
    : planCall(each, sight, limits, issue)
}

function planGroup(
  each: Identified,
  step: JsonObject,
  sight: Sight,
  limits: ChainLimits,
  issue: Visitor['issue'],
): PlannedGroup {
  const { id, path } = each
  const visitor = visitorFor(sight, issue)
  if (step.tool !== undefined) issue(path, 'has both tool and parallel; a step is a call or a group')
  onlyKeys(step, [...groupKeys, 'tool'], { path, visitor })
  if (!Array.isArray(step.parallel)) issue(`${path}/parallel`, 'must be a list of steps')
  const ids = new Set(each.members.map((member) => member.id))
  const members = each.members.map((member) =>
    planCall(member, { ...sight, siblings: ids, self: member.id }, limits, issue),
  )
  const place = { path: `${path}/concurrency`, visitor }
  return {
    kind: 'group',
    id,
    members,
    when: step.when === undefined ? undefined : compileCondition(step.when, `${path}/when`, visitor),
    concurrency: wholeNumber(step.concurrency, 1, limits.parallel, place) ?? limits.parallel,
  }
}

function planCall(each: Identified, sight: Sight, limits: ChainLimits, issue: Visitor['issue']): PlannedCall {
  const { id, path } = each
  const visitor = visitorFor(sight, issue)
  if (!isObject(each.step)) issue(path, 'must be an object such as { tool, args }')
  const step = isObject(each.step) ? each.step : { tool: 'none:none' }
  if (step.parallel !== undefined) issue(path, 'is a group within a group')
  else onlyKeys(step, callKeys, { path, visitor })
  if (step.concurrency !== undefined && step.forEach === undefined) {
    issue(`${path}/concurrency`, 'means something only with forEach or parallel')
  }
  const concurrency = wholeNumber(step.concurrency, 1, limits.parallel, { path: `${path}/concurrency`, visitor })
  const inner = visitorFor({ ...sight, inForEach: step.forEach !== undefined }, issue)
  return {
    kind: 'call',
    id,
    tool: toolOf(step, path, issue),
    args: argsOf(step, path, inner),
    when: step.when === undefined ? undefined : compileCondition(step.when, `${path}/when`, visitor),
    forEach: step.forEach === undefined ? undefined : listOf(step.forEach, `${path}/forEach`, visitor),
    concurrency: concurrency ?? 1,
    timeoutMs: wholeNumber(step.timeoutMs, 1, longestMs, { path: `${path}/timeoutMs`, visitor }),
    retry: retryRule(step.retry, { path: `${path}/retry`, visitor }),
    onError: onErrorRule(step.onError, { path: `${path}/onError`, visitor }),
  }
}

/** The tool is fixed text: which tool runs never depends on what another tool returned. */
function toolOf(step: JsonObject, path: string, issue: Visitor['issue']): string {
  if (step.tool === undefined) issue(`${path}/tool`, 'is missing; a step is { tool, args } or { parallel }')
  else if (typeof step.tool !== 'string' || step.tool === '') issue(`${path}/tool`, 'must be "namespace:name"')
  else if (step.tool.includes('{{')) issue(`${path}/tool`, 'may not hold a reference')
  return typeof step.tool === 'string' ? step.tool : ''
}

/** Arguments, with `usePrevious` turned into the reference it stands for. */
function argsOf(step: JsonObject, path: string, visitor: Visitor): Template {
  const written = step.args ?? {}
  if (!isObject(written)) visitor.issue(`${path}/args`, 'must be an object')
  const args = compileTemplate(isObject(written) ? written : {}, `${path}/args`, visitor)
  const members = args.kind === 'object' ? args.members : []
  const use = step.usePrevious ?? false
  if (use === false) return { kind: 'object', members }
  const at = `${path}/usePrevious`
  const name = use === true ? 'previous' : use
  if (typeof name !== 'string' || name === '' || name === '__proto__') {
    visitor.issue(at, 'must be true, false or the name of an argument')
    return { kind: 'object', members }
  }
  if (members.some(([key]) => key === name))
    visitor.issue(at, `would replace the argument "${clip(name)}", which args has too`)
  const reference = { root: 'prev', path: [], text: '{{prev}}' } as const
  visitor.reference(at, reference)
  return { kind: 'object', members: [...members, [name, { kind: 'reference', reference }]] }
}

function listOf(value: Json, path: string, visitor: Visitor): Template {
  const template = compileTemplate(value, path, visitor)
  if (template.kind !== 'list' && template.kind !== 'reference') {
    visitor.issue(path, 'must be a list, or one reference to a list')
  }
  return template
}

function visitorFor(sight: Sight, issue: Visitor['issue']): Visitor {
  return {
    issue,
    reference(path, reference) {
      const fault = referenceFault(reference, sight)
      if (fault !== undefined) issue(path, fault)
    },
  }
}

/** Where a checker stands and whom it tells. */
interface FieldLocation {
  readonly path: string
  readonly visitor: Visitor
}

/** Tells of every key that has no meaning here. */
function onlyKeys(value: JsonObject, known: readonly string[], { path, visitor }: FieldLocation): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    visitor.issue(
      `${path}/${escapeSegment(key.slice(0, 60))}`,
      `is not a known key${didYouMean(key.slice(0, 60), known)}`,
    )
  }
}

/** A whole number within bounds, or undefined when it is absent or wrong. */
function wholeNumber(value: Json | undefined, least: number, most: number, place: FieldLocation): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  place.visitor.issue(place.path, `must be a whole number from ${least} to ${most}`)
  return undefined
}

/** A number of milliseconds, or undefined when it is absent or wrong. */
function duration(value: Json | undefined, { path, visitor }: FieldLocation): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  visitor.issue(path, 'must be a number of milliseconds, 0 or more')
  return undefined
}

const mostAttempts = 100

/** A retry rule; whether a call may be retried at all is the pipeline's decision. */
function retryRule(value: Json | undefined, { path, visitor }: FieldLocation): RetryRule | undefined {
  if (value === undefined) return undefined
  if (!isObject(value)) {
    visitor.issue(path, 'must be an object such as { attempts: 3 }')
    return undefined
  }
  onlyKeys(value, ['attempts', 'delayMs', 'maxDelayMs'], { path, visitor })
  if (value.attempts === undefined) visitor.issue(`${path}/attempts`, 'is missing')
  const attempts = wholeNumber(value.attempts, 1, mostAttempts, { path: `${path}/attempts`, visitor })
  const delayMs = duration(value.delayMs, { path: `${path}/delayMs`, visitor })
  const maxDelayMs = duration(value.maxDelayMs, { path: `${path}/maxDelayMs`, visitor })
  return {
    attempts: attempts ?? 1,
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(maxDelayMs === undefined ? {} : { maxDelayMs }),
  }
}

/** What follows a failure: `stop`, `continue` or a literal output. */
function onErrorRule(value: Json | undefined, { path, visitor }: FieldLocation): 'stop' | { readonly output: Json } {
  if (value === undefined || value === 'stop') return 'stop'
  if (value === 'continue') return { output: null }
  if (isObject(value) && Object.keys(value).join() === 'output') return { output: value.output ?? null }
  visitor.issue(path, 'must be "stop", "continue" or { output }')
  return 'stop'
}
