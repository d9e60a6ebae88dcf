import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Page } from './page.ts'

/** Broken links: to a missing file, out of the repository, or to a missing heading. */
export function brokenLinks(root: string, pages: readonly Page[]): string[] {
  const byFile = new Map(pages.map((page) => [page.file, page]))
  return pages.flatMap((page) =>
    page.links.flatMap(({ target, line }) => {
      const fault = faultOf(root, page, target, byFile)
      return fault === undefined ? [] : [`${page.file}:${line} ${target} ${fault}`]
    }),
  )
}

function faultOf(root: string, page: Page, target: string, pages: ReadonlyMap<string, Page>): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(target)) return undefined
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? page.file : relative(root, join(root, dirname(page.file), decodeURIComponent(path)))
  if (file.startsWith('..')) return 'leaves the repository'
  if (!existsSync(join(root, file))) return 'does not exist'
  const anchors = pages.get(file)?.anchors
  return anchor === undefined || anchors === undefined || anchors.has(anchor) ? undefined : 'has no such heading'
}
