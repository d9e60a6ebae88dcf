import { type Json, type JsonObject, type StepResult, ToolError } from '@gantry/contract'
import { clip } from '../ids/quote.ts'
import { formatPath, type Reference, type Segment } from './reference.ts'

/** What references can see at one step. */
export interface Scope {
  /** Output of the last step that ran; null when none has. */
  readonly prev: Json
  readonly input: Json
  /** Finished steps by id, members of groups included. */
  readonly steps: ReadonlyMap<string, JsonObject>
  /** The element of a `forEach`. */
  readonly element?: { readonly item: Json; readonly index: number }
}

type Found =
  | { readonly found: true; readonly value: Json }
  | { readonly found: false; readonly depth: number; readonly holder: Json | undefined }

/** A finished step as `{{steps.<id>.…}}` sees it. */
export function stepView(step: StepResult): JsonObject {
  return { output: step.output, status: step.state, error: (step.error as Json | undefined) ?? null }
}

/** The value a reference names; throws REFERENCE_INVALID that says where the path ends. */
export function readReference(reference: Reference, scope: Scope): Json {
  const found = find(reference, scope)
  if (found.found) return found.value
  const { root, path } = reference
  const text = clip(reference.text)
  const absent = path[found.depth]
  const missing = typeof absent === 'string' ? clip(absent) : absent
  const available = namesIn(found.holder)
  const where = clip(formatPath(root, path.slice(0, found.depth)))
  const message = `${text} does not exist: ${where} ${describe(found.holder)}${missing === undefined ? '' : ` and has no ${JSON.stringify(missing)}`}`
  throw new ToolError('REFERENCE_INVALID', `${message}${listing(available)}.`, {
    details: {
      reference: text,
      ...(missing === undefined ? {} : { missing: String(missing) }),
      available: available.slice(0, shown),
    },
  })
}

/** Whether a reference names a value other than null. */
export function hasReference(reference: Reference, scope: Scope): boolean {
  const found = find(reference, scope)
  return found.found && found.value !== null
}

function find({ root, path }: Reference, scope: Scope): Found {
  if (root === 'steps') {
    const step = scope.steps.get(String(path[0]))
    return step === undefined ? { found: false, depth: 0, holder: undefined } : walk(step, path, 1)
  }
  if (root === 'prev') return walk(scope.prev, path, 0)
  if (root === 'input') return walk(scope.input, path, 0)
  if (scope.element === undefined) return { found: false, depth: 0, holder: undefined }
  return walk(root === 'item' ? scope.element.item : scope.element.index, path, 0)
}

function walk(start: Json, path: readonly Segment[], from: number): Found {
  let value = start
  for (let depth = from; depth < path.length; depth++) {
    const next = member(value, path[depth] ?? '')
    if (next === undefined) return { found: false, depth, holder: value }
    value = next
  }
  return { found: true, value }
}

/** Own members only, so nothing of a prototype can be named; `length` of a list is the one addition. */
function member(holder: Json, segment: Segment): Json | undefined {
  if (typeof holder !== 'object' || holder === null) return undefined
  if (Array.isArray(holder)) {
    if (segment === 'length') return holder.length
    return /^(0|[1-9]\d*)$/.test(String(segment)) ? holder[Number(segment)] : undefined
  }
  const key = String(segment)
  return key !== '__proto__' && Object.hasOwn(holder, key) ? holder[key] : undefined
}

const shown = 10

function namesIn(holder: Json | undefined): string[] {
  if (typeof holder !== 'object' || holder === null || Array.isArray(holder)) return []
  return Object.keys(holder).map((key) => (key.length > 40 ? `${key.slice(0, 40)}…` : key))
}

function listing(names: readonly string[]): string {
  if (names.length === 0) return ''
  const more = names.length > shown ? ` and ${names.length - shown} more` : ''
  return `; it has ${names
    .slice(0, shown)
    .map((key) => JSON.stringify(key))
    .join(', ')}${more}`
}

/** What kind of value it is, in words. */
export function describe(value: Json | undefined): string {
  if (value === undefined) return 'is not known here'
  if (value === null) return 'is null'
  if (Array.isArray(value)) return `is a list of ${value.length}`
  if (typeof value === 'object') return Object.keys(value).length === 0 ? 'is an empty object' : 'is an object'
  return typeof value === 'string' ? 'is text' : `is a ${typeof value}`
}
