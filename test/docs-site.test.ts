import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { drawDiagram } from '../scripts/docs/site/diagram.ts'
import { highlighted } from '../scripts/docs/site/highlight.ts'
import { renderPage } from '../scripts/docs/site/markdown.ts'
import { makeSite } from '../scripts/docs/site/site.ts'

const root = dirname(import.meta.dirname)

/** The site of a repository with these files. */
function siteOf(files: { readonly [path: string]: string }) {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-site-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    return makeSite(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function navigation(...files: readonly string[]): string {
  return JSON.stringify({ sections: [{ title: 'Start', pages: files.map((file) => ({ file })) }] })
}

test('no page of the site loads anything from elsewhere or has a script or style of its own', () => {
  const { files } = makeSite(root)
  assert.ok(files.size > 100)
  for (const [address, html] of files) {
    if (!address.endsWith('.html')) continue
    assert.doesNotMatch(html, /<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:[a-z]+:)?\/\//, address)
    assert.doesNotMatch(html, /<style|\sstyle="|<script>/, address)
  }
})

test('the site reports a page that no section names, and one that two name', () => {
  const pages = { 'docs/a.md': '# A\n', 'docs/b.md': '# B\n' }
  const { faults } = siteOf({ ...pages, 'docs/navigation.json': navigation('a.md', 'a.md', 'c.md') })
  assert.deepEqual(faults, [
    'docs/b.md is in no section; add { "file": "b.md" } to docs/navigation.json',
    'docs/navigation.json names a.md 2 times; keep one',
    'docs/navigation.json names c.md, which does not exist',
  ])
})

test('the site reports links to missing files and headings, and makes pages of files that are linked to', () => {
  const { faults, files } = siteOf({
    'docs/a.md': '# A\n\n## Here\n\n[here](#here) [gone](#gone) [b](b.md) [tool](../tool.ts)\n',
    'tool.ts': 'export const a = 1 < 2\n',
    'docs/navigation.json': navigation('a.md'),
  })
  assert.deepEqual(faults, [
    'docs/a.md links to b.md, which the site does not have',
    'docs/a.md links to #gone, which has no such heading',
  ])
  assert.match(files.get('a.html') ?? '', /href="repository\/tool\.ts\.html"/)
  assert.match(files.get('repository/tool.ts.html') ?? '', /1<\/span> &lt; <span/)
})

test('a page shows HTML as text, and code with its colours', () => {
  const { html } = renderPage(
    '# T\n\n<img src=x onerror=alert(1)>\n\n`<b>` <script>alert(1)</script>\n',
    (target) => target,
  )
  assert.doesNotMatch(html, /<img|<script|<b>/)
  assert.equal(
    highlighted("const a = '<b>' // c", 'ts'),
    '<span class="hl-word">const</span> a = <span class="hl-string">\'&lt;b&gt;\'</span> <span class="hl-comment">// c</span>',
  )
})

test('a diagram is drawn from text with a title for screen readers, and refused for a line that it does not know', () => {
  const drawn = drawDiagram('stateDiagram-v2\naccTitle: States\n[*] --> queued : submit\nqueued --> running', 'd')
  assert.match(drawn, /<svg [^>]*role="img" aria-label="States">/)
  for (const word of ['queued', 'running', 'submit']) assert.ok(drawn.includes(`>${word}</tspan>`), word)
  assert.throws(() => drawDiagram('flowchart TB\naccTitle: A\na ==> b', 'd'), /a ==> b/)
  assert.throws(() => drawDiagram('flowchart TB\na --> b', 'd'), /accTitle/)
})
