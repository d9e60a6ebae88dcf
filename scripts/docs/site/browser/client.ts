import { createDocSearch, type DocHit, type DocSearch } from '../../../../packages/gantry/src/docs/search.ts'
import type { DocPage } from '../../../../packages/gantry/src/docs/sections.ts'

// The script of every page: search, theme, menu on small screens, and the mark of the current heading.

const base = document.body.dataset.base ?? ''

function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id)
  if (!(found instanceof kind)) throw new Error(`The page has no ${id}.`)
  return found
}

const dialog = element('search', HTMLDialogElement)
const input = element('words', HTMLInputElement)
const list = element('hits', HTMLDivElement)
const hint = element('hint', HTMLParagraphElement)
const usualHint = hint.textContent
const mostHits = 12

let index: Promise<DocSearch> | undefined

/** The index is made once per page, when the search opens. */
function openIndex(): Promise<DocSearch> {
  index ??= fetch(`${base}search-index.json`)
    .then((response) => response.json())
    .then((pages) => createDocSearch(pages as readonly DocPage[]))
  return index
}

function openSearch(): void {
  if (dialog.open) return
  dialog.showModal()
  input.select()
  openIndex().then(showHits, () => {
    hint.textContent = 'The index cannot be read. Serve the site with npm run docs:serve, not from the disk.'
  })
}

async function showHits(): Promise<void> {
  const words = input.value.trim()
  const hits = words === '' ? [] : (await openIndex()).search(words, mostHits)
  list.replaceChildren(...hits.map(hitItem))
  input.setAttribute('aria-expanded', String(hits.length > 0))
  hint.textContent = words === '' || hits.length > 0 ? usualHint : 'No page has these words.'
  choose(0)
}

function hitItem({ file, title, heading, anchor, excerpt }: DocHit, position: number): HTMLAnchorElement {
  const link = document.createElement('a')
  link.id = `hit-${position}`
  link.setAttribute('role', 'option')
  const address = file.replace(/(^|\/)README\.md$/, '$1index.md').replace(/\.md$/, '.html')
  link.href = `${base}${address}${anchor === '' ? '' : `#${anchor}`}`
  link.tabIndex = -1
  const name = document.createElement('strong')
  name.textContent = anchor === '' ? title : `${title} › ${heading}`
  const text = document.createElement('span')
  text.textContent = excerpt
  link.append(name, text)
  link.addEventListener('click', () => dialog.close())
  return link
}

function choose(position: number): void {
  const items = [...list.children]
  for (const [at, item] of items.entries()) item.setAttribute('aria-selected', String(at === position))
  const item = items[position]
  if (item === undefined) input.removeAttribute('aria-activedescendant')
  else {
    input.setAttribute('aria-activedescendant', item.id)
    item.scrollIntoView({ block: 'nearest' })
  }
}

function clickChosen(): void {
  const item = list.children[chosenPosition()]
  if (item instanceof HTMLAnchorElement) item.click()
}

function chosenPosition(): number {
  return [...list.children].findIndex((item) => item.getAttribute('aria-selected') === 'true')
}

input.addEventListener('input', () => void showHits())
input.addEventListener('keydown', (event) => {
  const count = list.children.length
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault()
    const step = event.key === 'ArrowDown' ? 1 : -1
    if (count > 0) choose((chosenPosition() + step + count) % count)
  } else if (event.key === 'Enter') clickChosen()
})
dialog.addEventListener('click', (event) => {
  if (event.target === dialog) dialog.close()
})
element('search-open', HTMLButtonElement).addEventListener('click', openSearch)
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select')
  const isSearch = event.key === '/' || (event.key === 'k' && (event.ctrlKey || event.metaKey))
  if (!isSearch || isTyping || event.altKey) return
  event.preventDefault()
  openSearch()
})

// The theme: as the system, light, dark.
const themes = ['', 'light', 'dark']
const themeButton = element('theme', HTMLButtonElement)

function showTheme(): void {
  const theme = document.documentElement.dataset.theme ?? ''
  themeButton.textContent = { light: '☀', dark: '☾' }[theme] ?? '◐'
  themeButton.setAttribute('aria-label', `Colours: ${theme === '' ? 'as the system' : theme}`)
}

themeButton.addEventListener('click', () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? '') + 1) % themes.length] ?? ''
  if (next === '') {
    delete document.documentElement.dataset.theme
    localStorage.removeItem('theme')
  } else {
    document.documentElement.dataset.theme = next
    localStorage.setItem('theme', next)
  }
  showTheme()
})
showTheme()

const menu = element('menu', HTMLButtonElement)
menu.addEventListener('click', () => {
  const isOpen = document.body.classList.toggle('menu-open')
  menu.setAttribute('aria-expanded', String(isOpen))
})

// Copies a piece of code.
for (const block of document.querySelectorAll('article .code')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(block.querySelector('code')?.textContent ?? '').then(
      () => {
        button.textContent = 'Copied'
      },
      () => {
        button.textContent = 'Not copied'
      },
    )
  })
  block.append(button)
}

// The heading that is read now is marked in the outline.
const outlined = new Map(
  [...document.querySelectorAll<HTMLAnchorElement>('.outline a')].map((link) => [link.hash.slice(1), link]),
)
const seen = new IntersectionObserver(
  (entries) => {
    const first = entries.find(({ isIntersecting }) => isIntersecting)
    if (first === undefined) return
    for (const [anchor, link] of outlined) {
      if (anchor === first.target.id) link.setAttribute('aria-current', 'true')
      else link.removeAttribute('aria-current')
    }
  },
  { rootMargin: '-64px 0px -70% 0px' },
)
for (const heading of document.querySelectorAll('article h2, article h3')) seen.observe(heading)
