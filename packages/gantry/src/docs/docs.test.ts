import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainPage } from './plain.ts'
import { createDocSearch } from './search.ts'
import { readDocPage } from './sections.ts'

const page = readDocPage(
  'service.md',
  [
    '# The `service`',
    'It runs [calls](http-api.md#calls).',
    '## Dead letters',
    'A call that **failed** for good.',
    '```sh',
    '# no heading',
    '```',
    '## Dead letters',
    '| key | meaning |',
    '| --- | --- |',
    '| `a\\|b` | text |',
    '### Limits',
  ].join('\n'),
)

test('a page is read as sections with the anchors of GitHub, with its code and without its markup', () => {
  assert.equal(page.title, 'The service')
  assert.deepEqual(page.sections, [
    { anchor: '', heading: 'The service', text: 'It runs calls.' },
    { anchor: 'dead-letters', heading: 'Dead letters', text: 'A call that failed for good. # no heading' },
    { anchor: 'dead-letters-1', heading: 'Dead letters', text: 'key meaning a|b text' },
    { anchor: 'limits', heading: 'Limits', text: '' },
  ])
})

test('code keeps what looks like markup, in a page and in its index', () => {
  const markdown =
    '# Code\n\nSee `dlq show <id>`, [`__proto__`](a.md) and GANTRY\\_URL, <b>bold</b>.\n\n```sh\ngantry call <id>\n```\n'
  assert.equal(
    readDocPage('code.md', markdown).sections[0]?.text,
    'See dlq show <id>, __proto__ and GANTRY_URL, bold. gantry call <id>',
  )
  assert.match(plainPage(markdown, 80), /See dlq show <id>, __proto__ and GANTRY_URL, bold\.\n\n {4}gantry call <id>/)
})

test('a search finds sections by misspelt words, at most two of a page, and decisions last', () => {
  const decision = { ...page, file: 'decisions/0001-dead.md', title: 'Dead letters' }
  const hits = createDocSearch([decision, page]).search('dead leters', 10)
  assert.deepEqual(
    hits.map(({ file }) => file),
    ['service.md', 'service.md', 'decisions/0001-dead.md', 'decisions/0001-dead.md'],
  )
  assert.equal(createDocSearch([page]).search('', 10).length, 0)
})

test('a search finds words at the end of a section that is longer than the index reads', () => {
  const long = readDocPage('long.md', `# Long\n\n${'filler words here '.repeat(2_000)}pangolin`)
  const [hit] = createDocSearch([long]).search('pangolin', 1)
  assert.match(hit?.excerpt ?? '', /pangolin$/)
})

test('a page in the terminal keeps code, wraps text, and aligns a table that fits', () => {
  const shown = plainPage(
    '# Title\n\nOne [link](a.md) and `code`\nthat goes on.\n\n```ts\nconst a  = 1\n```\n\n| key | meaning |\n| --- | --- |\n| `port` | a number |\n',
    30,
  )
  assert.equal(
    shown,
    'Title\n=====\n\nOne link and code that goes\non.\n\n    const a  = 1\n\nkey   meaning\n----  --------\nport  a number\n',
  )
})

test('a table that does not fit is a paragraph for each row', () => {
  const shown = plainPage('| key | default | meaning |\n|---|---|---|\n| `a` | 1 | some words of it |\n', 20)
  assert.equal(shown, 'a\n    default: 1\n    meaning: some\n    words of it\n')
})
