import { clip } from '../ids/quote.ts'
import { didYouMean } from '../search/near.ts'

/** What a reference starts from. */
type ReferenceRoot = 'prev' | 'steps' | 'input' | 'item' | 'index'

export type Segment = string | number

/** A parsed `{{…}}`. */
export interface Reference {
  readonly root: ReferenceRoot
  readonly path: readonly Segment[]
  /** As it was written, braces included. */
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

/** Reads the reference whose `{{` stands at `start`; quoted keys may hold any text, so the end is parsed, not searched. */
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

/** Writes a path as a reference would, without braces. */
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

/** What may be referred to from one place in a chain. */
export interface Sight {
  /** Ids of the steps that have ended by then; grows while the chain is checked, so it is for asking at once. */
  readonly earlier: ReadonlySet<string>
  /** Every id of the chain. */
  readonly all: ReadonlySet<string>
  /** The other members of the same group. */
  readonly siblings: ReadonlySet<string>
  readonly self: string
  /** False for the first step. */
  readonly hasPrevious: boolean
  /** True where `item` and `index` mean something. */
  readonly inForEach: boolean
  readonly depth: number
}

const fields = ['output', 'status', 'error']

/** Says what is wrong with a reference as far as it can be known before anything runs. */
export function referenceFault(reference: Reference, sight: Sight): string | undefined {
  const { root, path } = reference
  const text = clip(reference.text)
  if (path.length > sight.depth) return `${text} has more than ${sight.depth} segments`
  if (root === 'prev' && !sight.hasPrevious) return `${text} has nothing to refer to in the first step; use {{input}}`
  if (root === 'item' && !sight.inForEach) return `${text} means something only in the args of a forEach step`
  if (root === 'index' && !sight.inForEach) return `${text} means something only in the args of a forEach step`
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
