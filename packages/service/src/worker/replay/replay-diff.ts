import type { ChainResult, ErrorInfo, Json, JsonObject, Result, StepResult } from '@gantry/contract'

/** One place in which two outcomes are not alike; what is absent from one of them is left out. */
export interface Difference {
  /** JSON Pointer into the outcome. */
  readonly path: string
  readonly before?: Json
  readonly after?: Json
}

const mostDifferences = 100
const longestValue = 1_000

/**
 * Where two outcomes of a call differ in what their reader would see: status, output, content, error, what was said of
 * the output, and the same for each step of a chain. When it ran, for how long and how often is left out.
 * The list ends after a hundred, and long values are cut.
 */
export function differencesOf(before: Result | ChainResult, after: Result | ChainResult): readonly Difference[] {
  const found: Difference[] = []
  compare(comparable(before), comparable(after), '', found)
  return found
}

function comparable(outcome: Result | ChainResult): Json {
  return 'chainId' in outcome ? comparableChain(outcome) : comparableResult(outcome)
}

function comparableChain({ status, output, error, steps }: ChainResult): JsonObject {
  return { status, output, ...comparableError(error), steps: steps.map(comparableStep) }
}

function comparableStep({ id, state, output, error, results, steps }: StepResult): JsonObject {
  return {
    ...{ id, state, output, ...comparableError(error), results: results.map(comparableResult) },
    ...(steps === undefined ? {} : { steps: steps.map(comparableStep) }),
  }
}

function comparableResult({ status, output, content, error, warnings }: Result): JsonObject {
  const said = warnings.filter(({ code }) => code === 'OUTPUT_INVALID' || code === 'DEPRECATED')
  return {
    ...{ status, output, content: content as unknown as Json, ...comparableError(error) },
    warnings: said.map(({ code, message }) => ({ code, message })),
  }
}

function comparableError(error: ErrorInfo | undefined): JsonObject {
  if (error === undefined) return {}
  const { code, message, stage, details } = error
  return { error: { code, message, stage, ...(details === undefined ? {} : { details: details as JsonObject }) } }
}

function compare(before: Json | undefined, after: Json | undefined, path: string, found: Difference[]): void {
  if (before === after || found.length >= mostDifferences) return
  if (isComposite(before) && isComposite(after) && Array.isArray(before) === Array.isArray(after)) {
    const [left, right] = [before as JsonObject, after as JsonObject]
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      compare(own(left, key), own(right, key), `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, found)
    }
    return
  }
  found.push({
    path,
    ...(before === undefined ? {} : { before: shown(before) }),
    ...(after === undefined ? {} : { after: shown(after) }),
  })
}

function isComposite(value: Json | undefined): value is JsonObject | Json[] {
  return typeof value === 'object' && value !== null
}

function own(value: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined
}

/** A long value as the beginning of its text. */
function shown(value: Json): Json {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length <= longestValue ? value : `${text.slice(0, longestValue)}…`
}
