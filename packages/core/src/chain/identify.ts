import type { Json } from '@gantry/contract'
import { isObject } from '../json/kinds.ts'

/** A step as written, with its id and its place in the chain. */
export interface Identified {
  readonly id: string
  readonly path: string
  readonly step: Json
  readonly members: readonly Identified[]
}

/** How many steps a chain has: each member of a group is one, and a `forEach` is one whatever its elements. */
export function countSteps(steps: readonly Json[]): number {
  return steps.reduce((sum: number, step) => sum + Math.max(1, membersOf(step).length), 0)
}

function membersOf(step: Json): readonly Json[] {
  return isObject(step) && Array.isArray(step.parallel) ? step.parallel : []
}

/** Gives every step and every member its id: as written, or by position (`step2`, in a group `step2_1`). */
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

/** Checks that ids can be referred to and tell steps apart; returns them all. */
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
