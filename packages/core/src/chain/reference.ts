import { type Json, type JsonObject, type StepResult, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { clip } from '../ids/quote.ts'
import { didYouMean } from '../search/near.ts'

/** The roots of references. */
type ReferenceRoot = 'prev' | 'steps' | 'input' | 'item' | 'index'

type Segment = string | number

/** A parsed `{{…}}`. */
export interface Reference {
  readonly root: ReferenceRoot
  readonly path: readonly Segment[]
  /** The source text, braces included. */
  readonly text: string
}

type ParsedReference =
  | { readonly ok: true; readonly reference: Reference; readonly end: number }
  | { readonly ok: false; readonly fault: string }

export const roots: readonly ReferenceRoot[] = ['prev', 'steps', 'input', 'item', 'index']

const name = '[\\p{L}\\p{N}_$-]+'
const syntax = {
  root: new RegExp(`\\{\\{\\s*(${name})`, 'uy'),
  member: new RegExp(`\\.(${name})`, 'uy'),
  index: /\[(0|[1-9]\d{0,9})\]/uy,
  double: /\["((?:[^"\\]|\\.)*)"\]/uy,
  single: /\['((?:[^'\\]|\\.)*)'\]/uy,
  end: /\s*\}\}/uy,
} as const
const bare = new RegExp(`^${name}$`, 'u')

/** Parses the reference whose `{{` is at `start`. Quoted keys may hold `}}`, so the end is parsed, not searched. */
export function parseReference(source: string, start = 0): ParsedReference {
  const head = matchAt('root', source, start)
  if (head === undefined) return { ok: false, fault: 'is not a reference' }
  const root = roots.find((candidate) => candidate === head.value)
  if (root === undefined)
    return { ok: false, fault: `starts with "${clip(head.value)}", not with one of ${roots.join(', ')}` }
  const path: Segment[] = []
  let at = head.end
  for (;;) {
    const end = matchAt('end', source, at)
    if (end !== undefined) {
      return { ok: true, reference: { root, path, text: source.slice(start, end.end) }, end: end.end }
    }
    const segment = segmentAt(source, at)
    if (segment === undefined)
      return { ok: false, fault: `cannot be read after "${clip(source.slice(start + 2, at).trim())}"` }
    path.push(segment.value)
    at = segment.end
  }
}

/** Formats a path as in a reference, without braces. */
export function formatPath(root: string, path: readonly Segment[]): string {
  return path.reduce<string>((text, segment) => {
    if (typeof segment === 'number') return `${text}[${segment}]`
    return bare.test(segment) ? `${text}.${segment}` : `${text}[${JSON.stringify(segment)}]`
  }, root)
}

function segmentAt(source: string, at: number): { value: Segment; end: number } | undefined {
  const member = matchAt('member', source, at)
  if (member !== undefined) return member
  const index = matchAt('index', source, at)
  if (index !== undefined) return { value: Number(index.value), end: index.end }
  const double = matchAt('double', source, at)
  if (double !== undefined) return unquote(double.value, double.end)
  const single = matchAt('single', source, at)
  return (
    single &&
    unquote(
      single.value.replaceAll(/\\'|"/g, (found) => (found === '"' ? '\\"' : "'")),
      single.end,
    )
  )
}

/** Quoted keys follow JSON's escapes. */
function unquote(body: string, end: number): { value: string; end: number } | undefined {
  try {
    const value: unknown = JSON.parse(`"${body}"`)
    return typeof value === 'string' ? { value, end } : undefined
  } catch {
    return undefined
  }
}

function matchAt(rule: keyof typeof syntax, source: string, at: number): { value: string; end: number } | undefined {
  const pattern = syntax[rule]
  pattern.lastIndex = at
  const match = pattern.exec(source)
  return match === null ? undefined : { value: match[1] ?? '', end: pattern.lastIndex }
}

/** The references that are valid at one position in a chain. */
export interface Sight {
  /** Ids of the steps that have ended before; grows during the check, so read it at once. */
  readonly earlier: ReadonlySet<string>
  /** Every id of the chain. */
  readonly all: ReadonlySet<string>
  /** The other members of the same group. */
  readonly siblings: ReadonlySet<string>
  readonly self: string
  /** False for the first step. */
  readonly hasPrevious: boolean
  /** True where `item` and `index` are defined. */
  readonly inForEach: boolean
  readonly depth: number
}

const fields = ['output', 'status', 'error']

/** The issue of a reference that can be found before the chain runs. */
export function referenceFault(reference: Reference, sight: Sight): string | undefined {
  const { root, path } = reference
  const text = clip(reference.text)
  if (path.length > sight.depth) return `${text} has more than ${sight.depth} segments`
  if (root === 'prev' && !sight.hasPrevious) return `${text} has nothing to refer to in the first step; use {{input}}`
  if (root === 'item' && !sight.inForEach) return `${text} is defined only in the args of a forEach step`
  if (root === 'index' && !sight.inForEach) return `${text} is defined only in the args of a forEach step`
  return root === 'steps' ? stepFault(reference, sight) : undefined
}

function stepFault({ path, text: written }: Reference, sight: Sight): string | undefined {
  const text = clip(written)
  const [id, field] = path
  if (typeof id !== 'string') return `${text} names no step; write {{steps.<id>.output}}`
  if (!sight.earlier.has(id)) return `${text} ${unseen(id, sight)}`
  if (typeof field !== 'string' || !fields.includes(field)) {
    const meant = formatPath('steps', [id, 'output', ...path.slice(1)])
    return `${text} must go on with one of ${fields.join(', ')}; write {{${clip(meant)}}} for the output`
  }
  return undefined
}

function unseen(id: string, sight: Sight): string {
  if (id === sight.self) return 'refers to its own step'
  if (sight.siblings.has(id)) return 'refers to a member of the same group, which runs at the same time'
  if (sight.all.has(id)) return 'refers to a step that runs later'
  return `refers to a step that does not exist${didYouMean(clip(id), sight.earlier)}`
}

/** The values that references of one step can read. */
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

/** A finished step as `{{steps.<id>.…}}` reads it. */
export function stepView(step: StepResult): JsonObject {
  return { output: step.output, status: step.state, error: (step.error as Json | undefined) ?? null }
}

/** The value of a reference. Throws REFERENCE_INVALID that names where the path ends. */
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

/** Own members only, so that no prototype can be reached, and the `length` of a list. */
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
  if (!isObject(holder)) return []
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

/** The kind of a value as text. */
export function describe(value: Json | undefined): string {
  if (value === undefined) return 'is not known here'
  if (value === null) return 'is null'
  if (Array.isArray(value)) return `is a list of ${value.length}`
  if (typeof value === 'object') return Object.keys(value).length === 0 ? 'is an empty object' : 'is an object'
  return typeof value === 'string' ? 'is text' : `is a ${typeof value}`
}
