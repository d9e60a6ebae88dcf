import type { Issue, Json, JsonObject, RetryRule } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { clip } from '../ids/quote.ts'
import { copyJson, JsonError } from '../json/plain.ts'
import { didYouMean } from '../search/near.ts'
import { compileCondition } from './condition.ts'
import type { PlannedCall, PlannedGroup, PlannedStep } from './context.ts'
import type { ChainLimits } from './limits.ts'
import { referenceFault, type Sight } from './reference.ts'
import { type Collector, compileTemplate, type Template } from './template.ts'

type CheckedChain =
  | { readonly ok: true; readonly plan: readonly PlannedStep[] }
  | { readonly ok: false; readonly issues: readonly Issue[] }

const callKeys = 'id tool args usePrevious when forEach concurrency timeoutMs retry onError'.split(' ')
const groupKeys = 'id parallel when concurrency'.split(' ')
const mostIssues = 100
const longestPath = 1_000
/** The longest timer Node can set. */
const longestMs = 2_147_483_647

/** Thrown to end a check that has found enough issues, which bounds its cost. */
class EnoughIssues extends Error {}

/**
 * Compiles a chain into a plan, or lists its issues. Makes no call. It is not checked by `core/options`, because the checks
 * of a step depend on the steps before it, and compile its templates and conditions in the same pass.
 */
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

function readSteps(steps: unknown, limits: ChainLimits, issue: Collector['issue']): PlannedStep[] {
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

function tooMany(count: number, limits: ChainLimits, issue: Collector['issue']): boolean {
  if (count <= limits.steps) return false
  issue('', `has ${count} steps; at most ${limits.steps} are allowed`)
  return true
}

/** A copy, so that the caller cannot change a running chain. */
function plainCopy(steps: unknown, limits: ChainLimits, issue: Collector['issue']): Json[] | undefined {
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

function planStep(each: Identified, sight: Sight, limits: ChainLimits, issue: Collector['issue']): PlannedStep {
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
  issue: Collector['issue'],
): PlannedGroup {
  const { id, path } = each
  const collector = collectorFor(sight, issue)
  if (step.tool !== undefined) issue(path, 'has both tool and parallel; a step is a call or a group')
  onlyKeys(step, [...groupKeys, 'tool'], { path, collector })
  if (!Array.isArray(step.parallel)) issue(`${path}/parallel`, 'must be a list of steps')
  const ids = new Set(each.members.map((member) => member.id))
  const members = each.members.map((member) =>
    planCall(member, { ...sight, siblings: ids, self: member.id }, limits, issue),
  )
  const place = { path: `${path}/concurrency`, collector }
  return {
    kind: 'group',
    id,
    members,
    when: step.when === undefined ? undefined : compileCondition(step.when, `${path}/when`, collector),
    concurrency: wholeNumber(step.concurrency, 1, limits.parallel, place) ?? limits.parallel,
  }
}

function planCall(each: Identified, sight: Sight, limits: ChainLimits, issue: Collector['issue']): PlannedCall {
  const { id, path } = each
  const collector = collectorFor(sight, issue)
  if (!isObject(each.step)) issue(path, 'must be an object such as { tool, args }')
  const step = isObject(each.step) ? each.step : { tool: 'none:none' }
  if (step.parallel !== undefined) issue(path, 'is a group within a group')
  else onlyKeys(step, callKeys, { path, collector })
  if (step.concurrency !== undefined && step.forEach === undefined) {
    issue(`${path}/concurrency`, 'is allowed only with forEach or parallel')
  }
  const concurrency = wholeNumber(step.concurrency, 1, limits.parallel, { path: `${path}/concurrency`, collector })
  const inner = collectorFor({ ...sight, inForEach: step.forEach !== undefined }, issue)
  return {
    kind: 'call',
    id,
    tool: toolOf(step, path, issue),
    args: argsOf(step, path, inner),
    when: step.when === undefined ? undefined : compileCondition(step.when, `${path}/when`, collector),
    forEach: step.forEach === undefined ? undefined : listOf(step.forEach, `${path}/forEach`, collector),
    concurrency: concurrency ?? 1,
    timeoutMs: wholeNumber(step.timeoutMs, 1, longestMs, { path: `${path}/timeoutMs`, collector }),
    retry: retryRule(step.retry, { path: `${path}/retry`, collector }),
    onError: onErrorRule(step.onError, { path: `${path}/onError`, collector }),
  }
}

/** The tool is fixed text: it must not depend on the output of another tool. */
function toolOf(step: JsonObject, path: string, issue: Collector['issue']): string {
  if (step.tool === undefined) issue(`${path}/tool`, 'is missing; a step is { tool, args } or { parallel }')
  else if (typeof step.tool !== 'string' || step.tool === '') issue(`${path}/tool`, 'must be "namespace:name"')
  else if (step.tool.includes('{{')) issue(`${path}/tool`, 'may not hold a reference')
  return typeof step.tool === 'string' ? step.tool : ''
}

/** The arguments, with `usePrevious` replaced by its reference. */
function argsOf(step: JsonObject, path: string, collector: Collector): Template {
  const written = step.args ?? {}
  if (!isObject(written)) collector.issue(`${path}/args`, 'must be an object')
  const args = compileTemplate(isObject(written) ? written : {}, `${path}/args`, collector)
  const members = args.kind === 'object' ? args.members : []
  const use = step.usePrevious ?? false
  if (use === false) return { kind: 'object', members }
  const at = `${path}/usePrevious`
  const name = use === true ? 'previous' : use
  if (typeof name !== 'string' || name === '' || name === '__proto__') {
    collector.issue(at, 'must be true, false or the name of an argument')
    return { kind: 'object', members }
  }
  if (members.some(([key]) => key === name))
    collector.issue(at, `would replace the argument "${clip(name)}", which args has too`)
  const reference = { root: 'prev', path: [], text: '{{prev}}' } as const
  collector.reference(at, reference)
  return { kind: 'object', members: [...members, [name, { kind: 'reference', reference }]] }
}

function listOf(value: Json, path: string, collector: Collector): Template {
  const template = compileTemplate(value, path, collector)
  if (template.kind !== 'list' && template.kind !== 'reference') {
    collector.issue(path, 'must be a list, or one reference to a list')
  }
  return template
}

function collectorFor(sight: Sight, issue: Collector['issue']): Collector {
  return {
    issue,
    reference(path, reference) {
      const fault = referenceFault(reference, sight)
      if (fault !== undefined) issue(path, fault)
    },
  }
}

/** The path of the checked field, and the collector that receives its issues. */
interface FieldLocation {
  readonly path: string
  readonly collector: Collector
}

/** Refuses unknown keys. */
function onlyKeys(value: JsonObject, known: readonly string[], { path, collector }: FieldLocation): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    collector.issue(
      `${path}/${escapeSegment(key.slice(0, 60))}`,
      `is not a known key${didYouMean(key.slice(0, 60), known)}`,
    )
  }
}

/** A whole number within bounds, or undefined when it is absent or invalid. */
function wholeNumber(value: Json | undefined, least: number, most: number, place: FieldLocation): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  place.collector.issue(place.path, `must be a whole number from ${least} to ${most}`)
  return undefined
}

/** A number of milliseconds, or undefined when it is absent or invalid. */
function duration(value: Json | undefined, { path, collector }: FieldLocation): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  collector.issue(path, 'must be a number of milliseconds, 0 or more')
  return undefined
}

const mostAttempts = 100

/** A retry rule. The pipeline decides whether a call may be retried at all. */
function retryRule(value: Json | undefined, { path, collector }: FieldLocation): RetryRule | undefined {
  if (value === undefined) return undefined
  if (!isObject(value)) {
    collector.issue(path, 'must be an object such as { attempts: 3 }')
    return undefined
  }
  onlyKeys(value, ['attempts', 'delayMs', 'maxDelayMs'], { path, collector })
  if (value.attempts === undefined) collector.issue(`${path}/attempts`, 'is missing')
  const attempts = wholeNumber(value.attempts, 1, mostAttempts, { path: `${path}/attempts`, collector })
  const delayMs = duration(value.delayMs, { path: `${path}/delayMs`, collector })
  const maxDelayMs = duration(value.maxDelayMs, { path: `${path}/maxDelayMs`, collector })
  return {
    attempts: attempts ?? 1,
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(maxDelayMs === undefined ? {} : { maxDelayMs }),
  }
}

/** The reaction to a failure: `stop`, `continue` or a literal output. */
function onErrorRule(value: Json | undefined, { path, collector }: FieldLocation): 'stop' | { readonly output: Json } {
  if (value === undefined || value === 'stop') return 'stop'
  if (value === 'continue') return { output: null }
  if (isObject(value) && Object.keys(value).join() === 'output') return { output: value.output ?? null }
  collector.issue(path, 'must be "stop", "continue" or { output }')
  return 'stop'
}

/** A step as given, with its id and its path in the chain. */
export interface Identified {
  readonly id: string
  readonly path: string
  readonly step: Json
  readonly members: readonly Identified[]
}

/** The number of steps of a chain: each member of a group is one, and a `forEach` is one whatever its elements. */
export function countSteps(steps: readonly Json[]): number {
  return steps.reduce((sum: number, step) => sum + Math.max(1, membersOf(step).length), 0)
}

function membersOf(step: Json): readonly Json[] {
  return isObject(step) && Array.isArray(step.parallel) ? step.parallel : []
}

/** Assigns every step and member its id: as given, or by position (`step2`, in a group `step2_1`). */
export function identify(steps: readonly Json[]): readonly Identified[] {
  return steps.map((step, index) => {
    const path = `/${index}`
    const id = idOf(step, `step${index + 1}`)
    const members = membersOf(step).map((member, position) => ({
      id: idOf(member, `step${index + 1}_${position + 1}`),
      path: `${path}/parallel/${position}`,
      step: member,
      members: [],
    }))
    return { id, path, step, members }
  })
}

/** Checks that ids are valid and unique; returns all of them. */
export function checkIds(steps: readonly Identified[], issue: (path: string, message: string) => void): Set<string> {
  const seen = new Map<string, string>()
  for (const { id, path, step } of steps.flatMap((each) => [each, ...each.members])) {
    const written = isObject(step) && step.id !== undefined
    const at = written ? `${path}/id` : path
    if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(id) || id === '__proto__' || id.length > 128) {
      issue(at, 'must be a letter or _ followed by letters, digits, _ or -, 128 at most')
    }
    const first = seen.get(id)
    if (first === undefined) seen.set(id, path)
    else issue(at, `${written ? 'is' : `gets the id "${id}", which is`} already the id of ${first}`)
  }
  return new Set(seen.keys())
}

function idOf(step: Json, fallback: string): string {
  if (!isObject(step) || step.id === undefined) return fallback
  return typeof step.id === 'string' ? step.id : ''
}
