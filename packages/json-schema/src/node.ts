import type { Issue } from '@gantry/contract'
import type { Resource } from './location.ts'
import { escapeSegment } from './pointer.ts'

/** The budget that one check has spent, and its position. */
export interface State {
  steps: number
  depth: number
  readonly maxDepth: number
  readonly scope: Resource[]
  issues: Issue[]
  issuesLeft: number
}

/** The members that the siblings of an `unevaluated…` keyword have evaluated. */
export interface Seen {
  allProperties: boolean
  readonly names: Set<string>
  allItems: boolean
  upTo: number
  readonly indexes: Set<number>
}

/** A compiled keyword or a compiled schema: `check` decides, `report` explains, `collect` adds what was looked at. */
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
const undecided: Stop = new Stop('holds a text that is too long to check against a pattern of this schema')
export const enough: Stop = new Stop('has more issues than are listed')

/** A definite verdict. A pattern without one ends the check, because under `not` a no would become a yes. */
export function sure(match: boolean | undefined): boolean {
  if (match === undefined) throw undecided
  return match
}

/** Pays for work; ends the check when the budget is spent. */
export function spend(state: State, steps: number): void {
  state.steps -= steps
  if (state.steps < 0) throw exhausted
}

/** Charges steps for comparing or hashing a text, in proportion to its length. */
export function spendText(state: State, text: string): void {
  if (text.length >= 64) spend(state, text.length >> 6)
}

/** Adds an issue, with paths and message cut in the middle when long; ends the report when the list is full. */
export function addIssue(state: State, path: string, schemaPath: string, keyword: string, message: string): void {
  state.issues.push({
    path: abridgePath(path),
    schemaPath: abridgePath(schemaPath),
    keyword,
    message: abridgeMessage(message),
  })
  if (--state.issuesLeft <= 0) throw enough
}

/** The pointer of a member; a long key is cut in the middle, so that such a path is for reading only. */
export function join(path: string, key: string | number): string {
  return `${path}/${typeof key === 'number' ? key : escapeSegment(abridgeKey(key))}`
}

const maxSegment = 200
const maxPath = 1_000
const maxMessage = 2_000

/**
 * Text of at most so many characters; a longer one loses its middle to an ellipsis. Joined from a list, because a
 * concatenation of slices would keep the whole text alive.
 */
function abridge(text: string, most: number): string {
  if (text.length <= most) return text
  const head = Math.ceil((most - 1) / 2)
  return [text.slice(0, head), '…', text.slice(text.length - (most - 1 - head))].join('').toWellFormed()
}

/** A key in a path or a message: at most 200 characters, because keys come from hostile values and are repeated in every issue. */
export const abridgeKey = (key: string): string => abridge(key, maxSegment)

/** The path of an issue: at most 1,000 characters. One with an ellipsis is for the reader and no longer a pointer to follow. */
export const abridgePath = (path: string): string => abridge(path, maxPath)

/** The sentence of an issue: at most 2,000 characters. */
export const abridgeMessage = (message: string): string => abridge(message, maxMessage)
