import type { Json, JsonObject, RetryRule } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { didYouMean } from '../search/did-you-mean.ts'
import type { Visitor } from './template.ts'

/** Where a checker stands and whom it tells. */
export interface Place {
  readonly path: string
  readonly visitor: Visitor
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Tells of every key that has no meaning here. */
export function onlyKeys(value: JsonObject, known: readonly string[], { path, visitor }: Place): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    visitor.issue(
      `${path}/${escapeSegment(key.slice(0, 60))}`,
      `is not a known key${didYouMean(key.slice(0, 60), known)}`,
    )
  }
}

/** A whole number within bounds, or undefined when it is absent or wrong. */
export function wholeNumber(value: Json | undefined, least: number, most: number, place: Place): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  place.visitor.issue(place.path, `must be a whole number from ${least} to ${most}`)
  return undefined
}

/** A number of milliseconds, or undefined when it is absent or wrong. */
function duration(value: Json | undefined, { path, visitor }: Place): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  visitor.issue(path, 'must be a number of milliseconds, 0 or more')
  return undefined
}

const mostAttempts = 100

/** A retry rule; whether a call may be retried at all is the pipeline's decision. */
export function retryRule(value: Json | undefined, { path, visitor }: Place): RetryRule | undefined {
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
export function onErrorRule(value: Json | undefined, { path, visitor }: Place): 'stop' | { readonly output: Json } {
  if (value === undefined || value === 'stop') return 'stop'
  if (value === 'continue') return { output: null }
  if (isObject(value) && Object.keys(value).join() === 'output') return { output: value.output ?? null }
  visitor.issue(path, 'must be "stop", "continue" or { output }')
  return 'stop'
}
