import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function docs(...words: readonly string[]) {
  const io = keptIo()
  return { code: await runCommandLine(['docs', ...words], io), ...io.printed }
}

test('docs lists the pages by section', async () => {
  const { code, out } = await docs('--json')
  const { sections } = JSON.parse(out) as { sections: { title: string; pages: { page: string; title: string }[] }[] }
  assert.equal(code, 0)
  assert.deepEqual(
    sections.filter(({ title }) => title !== 'Migrate').map(({ title }) => title),
    ['Start', 'How do I…', 'Concepts', 'Operate', 'Reference', 'Compare'],
  )
  assert.ok(sections.some(({ pages }) => pages.some(({ page, title }) => page === 'policy' && title === 'Policy')))
})

test('docs shows a page by its name, its path, or the end of its name', async () => {
  const { code, out } = await docs('policy')
  assert.equal(code, 0)
  assert.match(out, /^Policy\n======\n/)
  assert.ok(out.split('\n').every((line) => line.startsWith('    ') || line.length <= 80))
  assert.equal((await docs('docs/policy.md#rules')).out, out)
  assert.equal((await docs('docker')).out, (await docs('runtimes/docker')).out)
  const { page, markdown } = JSON.parse((await docs('policy', '--json')).out) as { page: string; markdown: string }
  assert.deepEqual([page, markdown.slice(0, 8)], ['policy', '# Policy'])
})

test('docs finds sections by words, and says how to read them', async () => {
  const { out } = await docs('dead', 'letter')
  assert.match(out, /^The service › Dead letters {2}\(gantry docs service\)$/m)
  const { items } = JSON.parse((await docs('dead', 'letter', '--limit', '2', '--json')).out) as { items: unknown[] }
  assert.equal(items.length, 2)
})

test('docs keeps placeholders of commands, in a page and in what it finds', async () => {
  assert.match(
    (await docs('how-do-i')).out.replaceAll(/\s+/g, ' '),
    /gantry dlq show <id>, then gantry dlq redrive <id>/,
  )
  assert.match((await docs('redrive', 'dead', 'letters')).out.replaceAll(/\s+/g, ' '), /gantry dlq show <id>/)
  assert.doesNotMatch((await docs('gantry', 'login')).out, /\\_/)
})

test('docs refuses a page that does not exist, with the nearest names', async () => {
  const { code, err } = await docs('runtimes/dokcer')
  assert.equal(code, 2)
  assert.match(err, /There is no page runtimes\/dokcer\./)
  assert.match(err, /runtimes\/docker/)
})

test('docs says when no page has the words', async () => {
  const { code, out, err } = await docs('xyzzyqwert', 'plughqq')
  assert.deepEqual([code, out], [0, ''])
  assert.match(err, /No page has these words/)
})
