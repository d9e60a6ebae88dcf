import { clip } from './clip.ts'

/** What a reference starts from. */
export type ReferenceRoot = 'prev' | 'steps' | 'input' | 'item' | 'index'

export type Segment = string | number

/** A parsed `{{…}}`. */
export interface Reference {
  readonly root: ReferenceRoot
  readonly path: readonly Segment[]
  /** As it was written, braces included. */
  readonly text: string
}

export type ParsedReference =
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
