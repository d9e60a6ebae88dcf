import { moduleName } from './module-tools.ts'

/** Modules that wait until a manifest is in order: all, as long as nobody can tell what it describes. */
export type Holds = 'all' | ReadonlySet<string>

/** What a manifest that failed means by what it says. */
export interface Meant {
  /** What it names as its program and files. */
  readonly uses: readonly string[]
  /** What it speaks of in any other way, as under a key with a slip in it. */
  readonly holds: Holds
}

export const nothing: Holds = new Set()

/** Goes by less than a manifest in order does: by paths, other letters of a case, and a name without its end. */
export function meantBy(said: unknown, names: ReadonlySet<string>): Meant {
  const text = JSON.stringify(said)?.toLowerCase()
  if (text === undefined) return { uses: [], holds: 'all' }
  const { program, files } = (said ?? {}) as { readonly program?: unknown; readonly files?: unknown }
  const listed = [program, ...(Array.isArray(files) ? files : [])]
  return {
    uses: listed.filter((name) => typeof name === 'string'),
    holds: new Set([...names].filter((name) => speaksOf(text, name.toLowerCase()))),
  }
}

export function holdsBack(holds: Holds, name: string): boolean {
  return moduleName.test(name) && (holds === 'all' || holds.has(name))
}

function speaksOf(text: string, name: string): boolean {
  const stem = name.replace(/\.[^.]*$/, '')
  return [name, `"${stem}"`, `/${stem}"`].some((said) => text.includes(said))
}
