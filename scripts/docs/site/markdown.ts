import { Marked, type Tokens } from 'marked'
import { createAnchors, plainLine } from '../../../packages/gantry/src/docs/sections.ts'
import { drawDiagram } from './diagram.ts'
import { escapeHtml, highlighted } from './highlight.ts'

/** A page as HTML, with its headings for the outline. */
export interface RenderedPage {
  readonly title: string
  readonly html: string
  readonly outline: readonly { readonly level: number; readonly anchor: string; readonly text: string }[]
}

/** Renders a page. `href` gives the address of a link, as it is written in the page, on the site. */
export function renderPage(markdown: string, href: (target: string) => string): RenderedPage {
  const anchors = createAnchors()
  const outline: { level: number; anchor: string; text: string }[] = []
  let title = ''
  let diagrams = 0
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading): string {
        const anchor = anchors(text)
        const inner = this.parser.parseInline(tokens)
        const plain = plainLine(text)
        if (depth === 1 && title === '') title = plain
        else outline.push({ level: depth, anchor, text: plain })
        const link = `<a class="anchor" href="#${anchor}" aria-label="Link to ${escapeHtml(plain)}">#</a>`
        return `<h${depth} id="${anchor}">${inner}${depth === 1 ? '' : ` ${link}`}</h${depth}>\n`
      },
      link({ href: target, tokens }: Tokens.Link): string {
        const outside = /^[a-z][a-z0-9+.-]*:/i.test(target) ? ' rel="noreferrer"' : ''
        return `<a href="${escapeHtml(href(target))}"${outside}>${this.parser.parseInline(tokens)}</a>`
      },
      image({ href: target, text }: Tokens.Image): string {
        return `<img src="${escapeHtml(href(target))}" alt="${escapeHtml(text)}">`
      },
      // A page may show HTML, and never is HTML.
      html({ text }: Tokens.HTML | Tokens.Tag): string {
        return /^<br\s*\/?>$|^<!--/.test(text) ? text : escapeHtml(text)
      },
      code({ text, lang = '' }: Tokens.Code): string {
        const [language = ''] = lang.split(/\s+/)
        if (language === 'mermaid') {
          diagrams += 1
          const drawn = drawDiagram(text, `diagram-${diagrams}`)
          return `${drawn}<details class="source"><summary>The diagram as text</summary><pre tabindex="0"><code>${escapeHtml(text)}</code></pre></details>\n`
        }
        const label = language === '' ? '' : ` data-language="${escapeHtml(language)}"`
        return `<div class="code"${label}><pre tabindex="0"><code>${highlighted(text, language)}</code></pre></div>\n`
      },
      table({ header, rows, align }: Tokens.Table): string {
        const cell = (name: 'th' | 'td') => (each: Tokens.TableCell, column: number) => {
          const side = align[column]
          const style = side === null || side === undefined ? '' : ` class="${side}"`
          const scope = name === 'th' ? ' scope="col"' : ''
          return `<${name}${style}${scope}>${this.parser.parseInline(each.tokens)}</${name}>`
        }
        const head = header.every(({ text }) => text === '')
          ? ''
          : `<thead><tr>${header.map(cell('th')).join('')}</tr></thead>`
        const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('\n')
        return `<div class="table" tabindex="0"><table>${head}<tbody>${body}</tbody></table></div>\n`
      },
    },
  })
  const html = marked.parse(markdown, { async: false })
  return { title, html, outline }
}
