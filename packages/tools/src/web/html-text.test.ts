import assert from 'node:assert/strict'
import { test } from 'node:test'
import { htmlText } from './html-text.ts'

const { signal } = new AbortController()
const textOf = async (html: string): Promise<string> => (await htmlText(html, 'https://example.com/a/b', signal)).text

test('htmlText returns the visible text of a page', async () => {
  const page = await htmlText(
    `<!doctype html><html><head><title>Tom &amp;
      Jerry</title><style>p{}</style><script>if (a<b) document.write("<p>no</p>")</script></head>
    <body><!-- <p>not this</p> --><h1>Hello <b>world</b></h1><p>One<br>two&nbsp;three
    <a href="/x?y=1&amp;z=2">a link</a>, end.</p><ul><li>a<li>b<ul><li>c</ul></ul><ol><li>x</li><li>y</li></ol>
    <table><tr><th>H</th><th>I</th></tr><tr><td>1</td><td>2</td></tr></table>
    <pre>if x:\n    y()</pre><img alt="a picture" src=p.png></body></html>`,
    'https://example.com/a/b',
    signal,
  )
  assert.equal(page.title, 'Tom & Jerry')
  assert.equal(
    page.text,
    [
      ...['# Hello world', '', 'One', 'two three [a link](https://example.com/x?y=1&z=2), end.', ''],
      '- a',
      '- b',
      '  - c',
      '',
      '1. x',
      '2. y',
      '',
      'H |I |',
      '1 |2 |',
      '',
      'if x:',
      '    y()',
      '',
      'a picture',
    ].join('\n'),
  )
})

test('character references are decoded once, and invalid ones are kept or replaced', async () => {
  assert.equal(
    await textOf('&lt;b&gt; &amp;lt; &#65;&#x42; &#0;&#xD800;&#x110000; &nosuch; &copy'),
    '<b> &lt; AB \ufffd\ufffd\ufffd &nosuch; ©',
  )
})

test('a > within quotes does not end a tag, and links that cannot be fetched become text', async () => {
  assert.equal(await textOf('<a title="a > b" href="https://x.test/">x</a>'), '[x](https://x.test/)')
  for (const href of ['javascript:alert(1)', 'data:text/html,x', '#top', 'file:///etc/passwd', 'http://[']) {
    assert.equal(await textOf(`<a href="${href}">x</a>`), 'x', href)
  }
})

test('an unclosed element swallows the rest, as in a browser', async () => {
  for (const open of ['<!--', '<script>', '<style>', '<a href="', '<svg>']) {
    assert.equal(await textOf(`before${open} after <p>more`), 'before', open)
  }
  assert.equal(await textOf('1 < 2 <3 <<b>x</b>'), '1 < 2 <3 <x')
})

/** Each of these takes a parser with a stack, or one that looks back, minutes or all memory. */
const hostile: { readonly [name: string]: string } = {
  deep: '<div>'.repeat(100_000),
  lists: '<ul><li>'.repeat(60_000),
  closes: `${'<i><b>'.repeat(30_000)}${'</i>'.repeat(30_000)}`,
  signs: '<'.repeat(500_000),
  comments: '<!--'.repeat(100_000),
  scripts: '<script>'.repeat(60_000),
  quotes: '<a b="'.repeat(80_000),
  spaces: `<a ${' '.repeat(500_000)}href=x>`,
  entities: '&'.repeat(500_000),
  cells: '<table><tr><td colspan=1000000000 rowspan=1000000000>x</table>'.repeat(1_000),
  growing: 'İ<script>x</script>'.repeat(20_000),
}

test('parsing hostile nesting takes time in proportion to the length of the page', async () => {
  for (const [name, html] of Object.entries(hostile)) {
    const text = await textOf(`start ${html}`)
    assert.ok(text.startsWith('start'), name)
    assert.ok(text.length < html.length * 4, name)
  }
})

test('reading a page yields to the event loop, and its signal ends it', async () => {
  const controller = new AbortController()
  const reading = htmlText('<b>x</b>'.repeat(200_000), 'https://example.com/', controller.signal)
  setImmediate(() => controller.abort())
  await assert.rejects(reading, { name: 'AbortError' })
})
