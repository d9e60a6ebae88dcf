import { posix } from 'node:path'
import { escapeHtml } from './highlight.ts'
import type { RenderedPage } from './markdown.ts'

/** A page in the sidebar. */
export interface NavigationLink {
  readonly section: string
  /** The title of its folder, for an entry that stands for a folder. */
  readonly group?: string
  readonly address: string
  readonly title: string
}

interface PageParts extends RenderedPage {
  readonly address: string
  /** The source, from the root of the repository. */
  readonly path: string
  readonly links: readonly NavigationLink[]
  readonly sections: readonly string[]
}

/** Nothing is loaded from elsewhere; there is no inline script or style. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'"

/** A whole page. All addresses are relative, so that the site works below any path. */
export function pageHtml({ address, path, links, sections, title, html, outline }: PageParts): string {
  const base = '../'.repeat(address.split('/').length - 1)
  const at = links.findIndex((link) => link.address === address)
  const here = links[at]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Gantry</title>
<link rel="icon" href="data:,">
<script src="${base}theme.js"></script>
<link rel="stylesheet" href="${base}style.css">
<script src="${base}site.js" defer></script>
</head>
<body data-base="${base}">
<a class="skip" href="#content">Skip to content</a>
<header class="bar">
<button type="button" id="menu" aria-expanded="false" aria-controls="sidebar" aria-label="Menu">☰</button>
<a class="brand" href="${base}index.html">Gantry</a>
<button type="button" id="search-open" aria-haspopup="dialog"><span>Search</span><kbd>/</kbd></button>
<button type="button" id="theme" aria-label="Colours: as the system">◐</button>
</header>
<div class="layout">
<nav id="sidebar" class="sidebar" aria-label="Pages">
${sections.map((section) => sidebarSection(section, links, address)).join('\n')}
</nav>
<main id="content" tabindex="-1">
${here === undefined ? '' : `<p class="eyebrow">${escapeHtml(here.section)}</p>`}
<article>
${html}
</article>
<footer>
<nav class="turn" aria-label="Previous and next page">${turn(links[at - 1], address, 'Previous')}${turn(at === -1 ? undefined : links[at + 1], address, 'Next')}</nav>
<p>Written from <code>${escapeHtml(path)}</code>.</p>
</footer>
</main>
<aside class="outline" aria-label="On this page">
${outlineHtml(outline)}
</aside>
</div>
<dialog id="search" aria-label="Search the documentation">
<input type="search" id="words" placeholder="Search the documentation" aria-label="Words" autocomplete="off" spellcheck="false" role="combobox" aria-expanded="false" aria-controls="hits">
<div id="hits" role="listbox" aria-label="Sections"></div>
<p class="hint" id="hint" role="status">Type words. Arrows choose, Enter opens, Esc closes.</p>
</dialog>
</body>
</html>
`
}

function sidebarSection(section: string, links: readonly NavigationLink[], address: string): string {
  const own = links.filter((link) => link.section === section)
  if (own.length === 0) return ''
  const isOpen = own.some((link) => link.address === address) || section === 'Start'
  const groups = [...new Set(own.map(({ group }) => group))]
  const items = groups.map((group) => {
    const list = own.filter((link) => link.group === group)
    const links = list.map((link) => sidebarLink(link, address)).join('')
    if (group === undefined) return links
    const isHere = list.some((link) => link.address === address)
    return `<li>${closing(group, isHere, `<ul>${links}</ul>`)}</li>`
  })
  return closing(section, isOpen, `<ul>${items.join('')}</ul>`)
}

function closing(title: string, isOpen: boolean, content: string): string {
  return `<details${isOpen ? ' open' : ''}><summary>${escapeHtml(title)}</summary>${content}</details>`
}

function sidebarLink(link: NavigationLink, address: string): string {
  const current = link.address === address ? ' aria-current="page"' : ''
  return `<li><a href="${to(address, link.address)}"${current}>${escapeHtml(link.title)}</a></li>`
}

function turn(link: NavigationLink | undefined, address: string, word: string): string {
  if (link === undefined) return '<span></span>'
  return `<a href="${to(address, link.address)}"><small>${word}</small>${escapeHtml(link.title)}</a>`
}

function outlineHtml(outline: RenderedPage['outline']): string {
  const shown = outline.filter(({ level }) => level <= 3)
  if (shown.length < 2) return ''
  const items = shown.map(
    ({ level, anchor, text }) => `<li class="level-${level}"><a href="#${anchor}">${escapeHtml(text)}</a></li>`,
  )
  return `<h2>On this page</h2><ul>${items.join('')}</ul>`
}

function to(from: string, address: string): string {
  return posix.relative(posix.dirname(from), address)
}
