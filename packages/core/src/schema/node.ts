import type { Issue } from '@gantry/contract'
import { escapeSegment } from '../json/pointer.ts'
import type { Resource } from './place.ts'

/** What one check has spent and where it is. */
export interface State {
  steps: number
  depth: number
  readonly maxDepth: number
  readonly scope: Resource[]
  issues: Issue[]
  room: number
}

/** What the siblings of an `unevaluated…` keyword have looked at. */
export interface Seen {
  allProperties: boolean
  readonly names: Set<string>
  allItems: boolean
  upTo: number
  readonly indexes: Set<number>
}

/** A compiled keyword or a compiled schema: `check` decides, `report` explains, `collect` tells what was looked at. */
export interface Node {
  check(value: unknown, state: State): boolean
  report(value: unknown, state: State, path: string): void
  collect: ((value: unknown, state: State, seen: Seen) => void) | undefined
  /** Schema levels below, without those behind references. */
  height: number
  /** The type bits, when the schema says nothing but `type`; otherwise 0. */
  types: number
  /** True when a sibling's `check` does this one's work. */
  covered: boolean
}

/** Thrown to end a check at once from any depth; never leaves the validator. */
export class Stop {
  readonly reason: string
  constructor(reason: string) {
    this.reason = reason
  }
}

export const exhausted: Stop = new Stop('is too complex to check within the step limit of this schema')
export const tooDeep: Stop = new Stop('is nested too deeply to check against this schema')
export const enough: Stop = new Stop('has more issues than are listed')

/** Pays for work; ends the check when the budget is spent. */
export function spend(state: State, steps: number): void {
  state.steps -= steps
  if (state.steps < 0) throw exhausted
}

/** Adds an issue; ends the report when the list is full. */
export function addIssue(state: State, path: string, schemaPath: string, keyword: string, message: string): void {
  state.issues.push({ path, schemaPath, keyword, message })
  if (--state.room <= 0) throw enough
}

/** The pointer of a member. */
export function join(path: string, key: string | number): string {
  return `${path}/${typeof key === 'number' ? key : escapeSegment(key)}`
}
