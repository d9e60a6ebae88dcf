import { didYouMean } from '../search/did-you-mean.ts'
import { clip } from './clip.ts'
import { formatPath, type Reference } from './reference.ts'

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
