import { findPackageJSON } from 'node:module'
import { dirname } from 'node:path'
import { readLibrary, type ShippedPage } from '../../docs/library.ts'
import { plainPage, wrap } from '../../docs/plain.ts'
import { createDocSearch, type DocHit } from '../../docs/search.ts'
import { type DocPage, readDocPage } from '../../docs/sections.ts'
import { unknownName } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import { printJson } from '../print.ts'
import { safeBlock, safeLine } from '../terminal.ts'

const usualHits = 8
const widest = 100

/** Lists the pages, shows the page that is named, or finds sections by words. Reads files of the package only. */
export const showDocs: Command = async ({ operands, options }, io) => {
  const manifest = findPackageJSON('.', import.meta.url)
  const pages = readLibrary(manifest === undefined ? '.' : dirname(manifest))
  const [name = ''] = operands
  const isJson = options.json === true
  if (operands.length === 0) return listPages(pages, isJson, io)
  const page = operands.length === 1 ? pageNamed(pages, name) : undefined
  if (page !== undefined) return showPage(page, isJson, io)
  if (operands.length === 1 && /\.md$|\//.test(name)) {
    throw await unknownName('page', `There is no page ${safeLine(name)}.`, name, pages.map(nameOf))
  }
  const read = pages.map(({ file, markdown }) => readDocPage(file, markdown))
  const hits = createDocSearch(read).search(operands.join(' '), options.limit ?? usualHits)
  if (isJson) await printJson({ items: hits }, io)
  else await io.out(hits.length === 0 ? '' : hitsText(hits, io))
  if (hits.length === 0) io.err('No page has these words; gantry docs lists all pages.\n')
  return 0
}

/** `runtimes/docker` of `runtimes/docker.md`. */
function nameOf({ file }: ShippedPage): string {
  return file.replace(/\.md$/, '')
}

/** The page of a name as it is printed or as a path of the repository; a last part that only one page has is enough. */
function pageNamed(pages: readonly ShippedPage[], typed: string): ShippedPage | undefined {
  const name = typed
    .replace(/^(?:\.\/)?docs\//, '')
    .replace(/#.*$/, '')
    .replace(/\.md$/, '')
    .toLowerCase()
  const exact = pages.find((page) => nameOf(page).toLowerCase() === name)
  const ending = pages.filter((page) => nameOf(page).toLowerCase().endsWith(`/${name}`))
  return exact ?? (ending.length === 1 ? ending[0] : undefined)
}

async function listPages(pages: readonly ShippedPage[], isJson: boolean, io: Io): Promise<number> {
  const sections = Map.groupBy(pages, ({ section }) => section)
  const rows = [...sections].map(([title, list]) => ({ title, pages: list.map(summaryOf) }))
  if (isJson) {
    await printJson({ sections: rows }, io)
    return 0
  }
  const width = Math.max(...pages.map((page) => nameOf(page).length))
  const lines = rows.flatMap(({ title, pages: list }) => [
    '',
    title,
    ...list.map(({ page, title: heading }) => `  ${page.padEnd(width)}  ${safeLine(heading)}`),
  ])
  await io.out(`${lines.slice(1).join('\n')}\n\ngantry docs PAGE shows a page, gantry docs WORDS… finds one.\n`)
  return 0
}

function summaryOf(page: ShippedPage): { readonly page: string; readonly title: string } {
  return { page: nameOf(page), title: titleOf(page) }
}

function titleOf({ file, markdown }: ShippedPage): string {
  const { title }: DocPage = readDocPage(file, markdown.slice(0, 2_000))
  return title
}

async function showPage(page: ShippedPage, isJson: boolean, io: Io): Promise<number> {
  const { file, section, markdown } = page
  if (isJson) await printJson({ page: nameOf(page), file, section, title: titleOf(page), markdown }, io)
  else await io.out(safeBlock(plainPage(markdown, Math.min(widest, Math.max(40, io.columns)))))
  return 0
}

function hitsText(hits: readonly DocHit[], io: Io): string {
  const width = Math.min(widest, Math.max(40, io.columns))
  return hits
    .map(({ file, title, heading, anchor, excerpt }) => {
      const name = file.replace(/\.md$/, '')
      const where = anchor === '' ? title : `${title} › ${heading}`
      const text = wrap(excerpt, width - 2).slice(0, 3)
      const lines = [
        `${where}  (gantry docs ${name})`,
        ...text.filter((line) => line !== '').map((line) => `  ${line}`),
      ]
      return `${safeBlock(lines.join('\n'))}\n`
    })
    .join('\n')
}
