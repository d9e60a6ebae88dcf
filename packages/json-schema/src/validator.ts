import type { Issue, JsonSchema } from '@gantry/contract'
import { compilePlace } from './compile.ts'
import { type LoadOptions, loadSchema } from './load.ts'
import { enough, type State, Stop } from './node.ts'

export interface CompileOptions extends LoadOptions {
  /** `annotate`, the default, leaves `format` to the reader; `assert` enforces it. */
  readonly format?: 'annotate' | 'assert'
}

/** A compiled schema. Both functions are synchronous, keep nothing of the value, and end within the limits. */
export interface Validator {
  /** Whether the value fits; false too when it costs more than the limits allow, which `issues` then says. */
  check(value: unknown): boolean
  /**
   * Everything wrong with the value, up to `limits.issues`; empty when it fits. Keys longer than 200 characters, paths
   * longer than 1,000 and messages longer than 2,000 have an ellipsis for their middle, so that long keys cannot make
   * the list many times as large as the value.
   */
  issues(value: unknown): Issue[]
}

/** Compiles a schema; throws SCHEMA_INVALID with every malformed place in `details.issues`. */
export function compileSchema(schema: JsonSchema, options: CompileOptions = {}): Validator {
  const { root, registry } = loadSchema(schema, options)
  const node = compilePlace(root, registry, options.format === 'assert')
  const { check } = node
  const { limits } = registry
  const state: State = { steps: 0, depth: 0, maxDepth: limits.recursion, scope: [], issues: [], room: 0 }
  const start = (): void => {
    state.steps = limits.steps
    state.depth = 0
    if (state.scope.length > 0) state.scope.length = 0
  }
  const attempt = <T>(run: () => T): T | Stop => {
    start()
    try {
      return run()
    } catch (stop) {
      if (stop instanceof Stop) return stop
      throw stop
    }
  }
  return {
    check(value) {
      start()
      try {
        return check(value, state)
      } catch (stop) {
        if (stop instanceof Stop) return false
        throw stop
      }
    },
    issues(value) {
      const verdict = attempt(() => check(value, state))
      if (verdict === true) return []
      const issues: Issue[] = []
      state.issues = issues
      state.room = limits.issues
      const ended = attempt(() => node.report(value, state, ''))
      state.issues = []
      if (ended instanceof Stop && ended !== enough) issues.push({ path: '', message: ended.reason })
      else if (issues.length === 0 && verdict instanceof Stop) issues.push({ path: '', message: verdict.reason })
      return issues
    },
  }
}

/** Refuses what `compileSchema` refuses, builds nothing and keeps nothing. */
export function checkSchema(schema: JsonSchema, options: CompileOptions = {}): void {
  loadSchema(schema, options)
}
