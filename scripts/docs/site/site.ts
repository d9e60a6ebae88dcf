import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'
import { filesOf, type NavigationSection, pagesOf, readNavigation } from '../../../packages/gantry/src/docs/library.ts'
import { type DocPage, readDocPage } from '../../../packages/gantry/src/docs/sections.ts'
import { highlighted } from './highlight.ts'
import { type RenderedPage, renderPage } from './markdown.ts'
import { type NavigationLink, pageHtml } from './template.ts'

/** The site as files, path to text. */
export interface Site {
  readonly files: ReadonlyMap<string, string>
  readonly pages: number
  /** What is wrong: pages that no section names, links that lead nowhere. */
  readonly faults: readonly string[]
}

/** A file of the repository that is a page of the site: of `docs/`, or one that a page links to. */
interface Source {
  /** From the root of the repository. */
  readonly path: string
  readonly address: string
}

/** Files of the repository outside `docs/` are pages below this folder of the site. */
const outside = 'repository'
const mostSourceBytes = 400_000

/** Makes the site of `docs/` in memory: every page that the navigation names, and what those pages link to. */
export function makeSite(root: string): Site {
  const docs = join(root, 'docs')
  const sections = readNavigation(docs)
  const pages = pagesOf(docs)
  const links = pages.map(({ file, section, markdown }): NavigationLink => {
    const { title } = readDocPage(file, markdown)
    const group = groupOf(sections, docs, file)
    const address = addressOf(`docs/${file}`)
    return { section, address, title: titleIn(sections, file) ?? title, ...(group === undefined ? {} : { group }) }
  })
  const files = new Map<string, string>()
  const faults = [...navigationFaults(docs, sections)]
  const anchors = new Map<string, ReadonlySet<string>>()
  const wanted: { from: string; target: string; address: string; anchor: string }[] = []
  const waiting: Source[] = pages.map(({ file }) => ({ path: `docs/${file}`, address: addressOf(`docs/${file}`) }))
  const known = new Set(waiting.map(({ path }) => path))
  for (let source = waiting.shift(); source !== undefined; source = waiting.shift()) {
    const { path, address } = source
    const href = (target: string): string => {
      if (/^[a-z][a-z0-9+.-]*:/i.test(target)) return target
      const [to = '', anchor = ''] = target.split('#')
      const file = to === '' ? path : posix.join(posix.dirname(path), decodeURIComponent(to))
      const found = pageFile(root, file)
      if (found === undefined) {
        faults.push(`${path} links to ${target}, which the site does not have`)
        return '#'
      }
      if (!known.has(found)) {
        known.add(found)
        waiting.push({ path: found, address: addressOf(found) })
      }
      wanted.push({ from: path, target, address: addressOf(found), anchor })
      const there = posix.relative(posix.dirname(address), addressOf(found))
      return `${to === '' ? '' : there}${anchor === '' ? '' : `#${anchor}`}`
    }
    try {
      const rendered = statSync(join(root, path)).isDirectory()
        ? folderPage(root, path, href)
        : path.endsWith('.md')
          ? renderPage(readFileSync(join(root, path), 'utf8'), href)
          : codePage(path, readFileSync(join(root, path), 'utf8'))
      anchors.set(address, new Set(rendered.outline.map(({ anchor }) => anchor)))
      files.set(address, pageHtml({ address, path, links, sections: sections.map(({ title }) => title), ...rendered }))
    } catch (error) {
      faults.push(`${path} cannot be rendered: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  for (const { from, target, address, anchor } of wanted) {
    const has =
      anchor === '' ||
      !address.endsWith('.html') ||
      anchors.get(address)?.has(anchor) === true ||
      isTop(root, address, anchor)
    if (!has) faults.push(`${from} links to ${target}, which has no such heading`)
  }
  const read = pages.map(({ file, markdown }): DocPage => readDocPage(file, markdown))
  files.set('search-index.json', JSON.stringify(read))
  return { files, pages: pages.length, faults }
}

/** The heading of the page itself is not part of its outline. */
function isTop(root: string, address: string, anchor: string): boolean {
  const file = join(
    root,
    address.startsWith(`${outside}/`) ? address.slice(outside.length + 1) : `docs/${address}`,
  ).replace(/\.html$/, '.md')
  const [line = ''] = existsSync(file) ? readFileSync(file, 'utf8').split('\n', 1) : []
  return (
    anchor ===
    line
      .replace(/^#\s+/, '')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
  )
}

/** `docs/README.md` is the first page; a folder's README is its index. */
function addressOf(path: string): string {
  const place = path.startsWith('docs/') ? path.slice('docs/'.length) : `${outside}/${path}`
  return place.endsWith('.md')
    ? place.replace(/\.md$/, '.html').replace(/(^|\/)README\.html$/, '$1index.html')
    : `${place}.html`
}

/** The file that a link to a path means: itself, or the README of a folder, or the first page of one without. */
function pageFile(root: string, path: string): string | undefined {
  const file = join(root, path)
  if (relative(root, file).startsWith('..') || !existsSync(file)) return undefined
  if (!statSync(file).isDirectory()) return statSync(file).size > mostSourceBytes ? undefined : path.replace(/\/$/, '')
  const folder = path.replace(/\/$/, '')
  const [first] = existsSync(join(file, 'README.md')) ? ['README.md'] : globSync('*.md', { cwd: file }).sort()
  return first === undefined ? folder : `${folder}/${first}`
}

/** A folder without a page of its own is the list of its programs. */
function folderPage(root: string, folder: string, href: (target: string) => string): RenderedPage {
  const files = globSync('**/*.{md,ts,mjs,py}', { cwd: join(root, folder), exclude: ['**/node_modules/**'] }).sort()
  const markdown = `# ${folder}\n\n${files.map((file) => `- [${file}](${posix.basename(folder)}/${file})`).join('\n')}\n`
  return renderPage(markdown, href)
}

function codePage(path: string, text: string): RenderedPage {
  const language = path.split('.').at(-1) ?? ''
  const html = `<h1>${path}</h1>\n<div class="code"><pre tabindex="0"><code>${highlighted(text, language)}</code></pre></div>`
  return { title: path, html, outline: [] }
}

function titleIn(sections: readonly NavigationSection[], file: string): string | undefined {
  const entry = sections.flatMap(({ pages }) => pages).find((page) => 'file' in page && page.file === file)
  return entry?.title
}

/** The title of the folder that stands for a page in the navigation. */
function groupOf(sections: readonly NavigationSection[], docs: string, file: string): string | undefined {
  const entry = sections
    .flatMap(({ pages }) => pages)
    .find((page) => 'folder' in page && filesOf(docs, page).includes(file))
  return entry?.title
}

/** Pages that no section or more than one names, and entries without a file. */
export function navigationFaults(docs: string, sections: readonly NavigationSection[]): readonly string[] {
  const named = sections.flatMap(({ title, pages }) =>
    pages.flatMap((entry) => filesOf(docs, entry).map((file) => ({ title, file }))),
  )
  const counts = Map.groupBy(named, ({ file }) => file)
  const all = globSync('**/*.md', { cwd: docs }).sort()
  return [
    ...all
      .filter((file) => !counts.has(file))
      .map((file) => `docs/${file} is in no section; add { "file": "${file}" } to docs/navigation.json`),
    ...[...counts].flatMap(([file, places]) => {
      const twice = places.length > 1 ? [`docs/navigation.json names ${file} ${places.length} times; keep one`] : []
      const missing = all.includes(file) ? [] : [`docs/navigation.json names ${file}, which does not exist`]
      return [...twice, ...missing]
    }),
  ]
}

export function folderOf(root: string): string {
  return join(root, 'build', 'site')
}

/** Where the style sheet and the script of the site are. */
export const assets = dirname(import.meta.filename)
