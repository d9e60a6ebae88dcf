import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'

/** A page as it is shipped. */
export interface ShippedPage {
  /** Path below the folder of the documentation, `runtimes/docker.md`. */
  readonly file: string
  /** The section of the navigation that names it. */
  readonly section: string
  readonly markdown: string
}

/** A section of the navigation. A folder stands for its pages, in the order of their names. */
export interface NavigationSection {
  readonly title: string
  readonly pages: readonly NavigationEntry[]
}

export type NavigationEntry =
  | { readonly file: string; readonly title?: string }
  | { readonly folder: string; readonly title: string }

/** Pages that a package may ship, and the bytes of all of them. */
const mostPages = 500
const mostBytes = 8_388_608

/** The pages that `docs/navigation.json` names, in its order. */
export function pagesOf(folder: string): readonly ShippedPage[] {
  const pages = readNavigation(folder).flatMap(({ title, pages: entries }) =>
    entries.flatMap((entry) =>
      filesOf(folder, entry)
        .filter((file) => existsSync(join(folder, file)))
        .map((file) => ({ file, section: title, markdown: readFileSync(join(folder, file), 'utf8') })),
    ),
  )
  const bytes = pages.reduce((sum, { markdown }) => sum + Buffer.byteLength(markdown), 0)
  if (pages.length > mostPages || bytes > mostBytes) {
    throw new Error(`The documentation has ${pages.length} pages of ${bytes} bytes; ${mostPages} of ${mostBytes} ship.`)
  }
  return pages
}

/** The files of an entry. A folder begins with its README. */
export function filesOf(folder: string, entry: NavigationEntry): readonly string[] {
  if ('file' in entry) return [entry.file]
  const names = readdirSync(join(folder, entry.folder)).filter((name) => name.endsWith('.md'))
  const rank = (name: string): string => (name === 'README.md' ? '' : name)
  return names.sort((one, other) => (rank(one) < rank(other) ? -1 : 1)).map((name) => `${entry.folder}/${name}`)
}

export function readNavigation(folder: string): readonly NavigationSection[] {
  const { sections } = JSON.parse(readFileSync(join(folder, 'navigation.json'), 'utf8')) as {
    readonly sections: readonly NavigationSection[]
  }
  return sections
}

/** Reads the pages that the build wrote beside the command, or else those of the repository that it runs from. */
export function readLibrary(packageFolder: string): readonly ShippedPage[] {
  const shipped = join(packageFolder, 'dist', 'docs.json')
  if (existsSync(shipped)) return shippedPages(JSON.parse(readFileSync(shipped, 'utf8')))
  const folder = join(packageFolder, '..', '..', 'docs')
  if (existsSync(join(folder, 'navigation.json'))) return pagesOf(folder)
  throw new ToolError('INTERNAL', `The documentation is missing from ${packageFolder}; install the package again.`)
}

function shippedPages(value: unknown): readonly ShippedPage[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : []
  return list.filter(
    (page): page is ShippedPage => isObject(page) && [page.file, page.section, page.markdown].every(isText),
  )
}
