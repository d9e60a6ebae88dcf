import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Issue, ToolError } from '@gantry/contract'
import type { Knowledge, NewDocument } from '@gantry/knowledge/internal/knowledge'
import { acme, get, ids, type KnowledgeCase, type KnowledgeSetup, signal, umbrella } from './knowledge-case.ts'
import { hardCases } from './knowledge-hard.ts'

export type OpenKnowledge = (t: TestContext) => Promise<(setup: KnowledgeSetup) => Promise<Knowledge>>

const notes: readonly NewDocument[] = [
  {
    id: 'reset',
    title: 'Passwords',
    text: 'To reset a password open the settings and choose security.',
    tags: ['help'],
    source: 'https://x.test/a',
  },
  {
    id: 'invoice',
    title: 'Invoices',
    text: 'An invoice is paid within thirty days. Invoices are sent by mail.',
    tags: ['money', 'help'],
    source: 'https://x.test/b',
  },
  {
    id: 'lunch',
    text: 'The canteen serves soup. On Fridays there is fish, and the settings of the tables change.',
    source: 'https://x.test/b',
  },
]

/** The contract of Knowledge; every implementation runs it. What `open` gives makes it empty, one after the other. */
export function testKnowledge(name: string, open: OpenKnowledge): void {
  const cases: KnowledgeCase[] = []
  const inCase = (...one: KnowledgeCase): void => void cases.push(one)

  inCase('a text is found by its words, the best first, with its source and place', async (knowledge) => {
    const { documents } = await knowledge.add(notes, acme, signal)
    assert.deepEqual(
      documents.map(({ id, state, chunks }) => [id, state, chunks]),
      [
        ['reset', 'added', 1],
        ['invoice', 'added', 1],
        ['lunch', 'added', 1],
      ],
    )
    const { items } = await knowledge.search({ query: 'How do I reset the password in settings?' }, acme, signal)
    assert.deepEqual(
      items.map(({ id }) => id),
      ['reset', 'lunch'],
    )
    const [first, second] = items
    assert.deepEqual(
      { ...first, score: 0 },
      {
        ...{
          id: 'reset',
          title: 'Passwords',
          source: 'https://x.test/a',
          tags: ['help'],
          position: 0,
          start: 0,
          score: 0,
        },
        text: notes[0]?.text,
      },
    )
    assert.equal(first?.score, 1)
    assert.ok((second?.score ?? 1) < 1)
    assert.deepEqual(await ids(knowledge, 'unheard'), [])
  })

  inCase('a word in another form finds, and so does one of a title', async (knowledge) => {
    await knowledge.add(notes, acme, signal)
    assert.deepEqual(await ids(knowledge, 'invoices'), ['invoice'])
    assert.deepEqual(await ids(knowledge, 'passwords'), ['reset'])
  })

  inCase('filters, phrases and words to leave out narrow a search', async (knowledge) => {
    await knowledge.add(notes, acme, signal)
    const query = 'settings invoice password soup'
    assert.equal((await ids(knowledge, query)).length, 3)
    assert.deepEqual((await ids(knowledge, query, { tags: ['help'] })).sort(), ['invoice', 'reset'])
    assert.deepEqual(await ids(knowledge, query, { tags: ['help', 'money'] }), ['invoice'])
    assert.deepEqual(await ids(knowledge, query, { tags: ['help', 'nothing'] }), [])
    assert.deepEqual((await ids(knowledge, query, { source: 'https://x.test/b' })).sort(), ['invoice', 'lunch'])
    assert.deepEqual(await ids(knowledge, 'settings "open the settings"'), ['reset'])
    assert.deepEqual(await ids(knowledge, 'settings "settings open"'), [])
    assert.deepEqual(await ids(knowledge, 'settings -canteen'), ['reset'])
  })

  inCase('texts in many languages are found, also those that write no spaces', async (knowledge) => {
    await knowledge.add(
      [
        { id: 'de', text: 'Die Rechnung für die Überweisung liegt im Büro.' },
        { id: 'ru', text: 'Счёт нужно оплатить в течение тридцати дней.' },
        { id: 'zh', text: '请在三十天内支付发票。密码可以在设置中重置。' },
      ],
      acme,
      signal,
    )
    assert.deepEqual(await ids(knowledge, 'Überweisung'), ['de'])
    assert.deepEqual(await ids(knowledge, 'оплатить'), ['ru'])
    assert.deepEqual(await ids(knowledge, '密码'), ['zh'])
    assert.deepEqual(await ids(knowledge, '发票'), ['zh'])
  })

  inCase(
    'a long text is cut between its paragraphs, each piece is found, and together they are the text',
    async (knowledge) => {
      const paragraph = (n: number): string =>
        `Paragraph number${n} speaks of topic${n}. ${'It goes on and on. '.repeat(20)}`
      const text = Array.from({ length: 60 }, (_, n) => paragraph(n)).join('\n\n')
      await knowledge.add([{ id: 'long', text }], acme, signal)
      const whole = await get(knowledge, 'long')
      assert.equal(whole.text, text)
      assert.equal(whole.bytes, Buffer.byteLength(text))
      assert.ok(whole.chunks > 10, String(whole.chunks))
      const [hit] = (await knowledge.search({ query: 'topic42' }, acme, signal)).items
      assert.ok(hit !== undefined && hit.position > 0)
      assert.ok(hit.text.includes('topic42'))
      assert.equal(text.slice(hit.start, hit.start + hit.text.length), hit.text)
      const part = await knowledge.get('long', { from: hit.position, limit: 1 }, acme, signal)
      assert.deepEqual([part.text, part.next], [hit.text, hit.position + 1])
    },
  )

  inCase('adding the same changes nothing, and adding other text under an id replaces it', async (knowledge) => {
    const [note = { text: '' }] = notes
    await knowledge.add([note], acme, signal)
    const again = await knowledge.add([{ ...note, tags: [...(note.tags ?? [])] }], acme, signal)
    assert.equal(again.documents[0]?.state, 'unchanged')
    const other = await knowledge.add([{ ...note, text: 'Something about gardens.' }], acme, signal)
    assert.equal(other.documents[0]?.state, 'replaced')
    assert.deepEqual(await ids(knowledge, 'security'), [])
    assert.deepEqual(await ids(knowledge, 'gardens'), ['reset'])
    const [named] = (await knowledge.add([{ text: 'No id was given.' }], acme, signal)).documents
    const [same] = (await knowledge.add([{ text: 'No id was given.' }], acme, signal)).documents
    assert.match(named?.id ?? '', /^doc_[0-9a-f]{32}$/)
    assert.deepEqual([same?.id, same?.state], [named?.id, 'unchanged'])
  })

  inCase('of two documents of one id in one add both are refused, and nothing is kept', async (knowledge) => {
    const refused = async (documents: readonly NewDocument[], path: string): Promise<void> => {
      await assert.rejects(knowledge.add(documents, acme, signal), (error) => {
        assert.ok(ToolError.is(error) && error.code === 'INPUT_INVALID')
        const issues = (error.details?.issues ?? []) as readonly Issue[]
        assert.deepEqual([issues.length, issues[0]?.path], [1, path])
        return true
      })
    }
    const [first, second, other] = ['first pear', 'second pear', 'other pear'].map((text) => ({ text }))
    assert.ok(first !== undefined && second !== undefined && other !== undefined)
    await refused([{ ...first, id: 'a' }, { ...second, id: 'a' }, other], '/documents/1/id')
    await refused([first, other, { ...first, title: 'The same text' }], '/documents/2')
    assert.deepEqual(await ids(knowledge, 'pear'), [])
    const apart = [first, { ...first, source: 'https://x.test/c' }, { ...first, id: 'a' }]
    assert.equal((await knowledge.add(apart, acme, signal)).documents.length, 3)
  })

  inCase('what is kept of a document comes back, and what is removed is gone', async (knowledge) => {
    const metadata = { page: 3, deep: { nul: 'a\0b', list: [1, null] } }
    await knowledge.add([{ id: 'm', text: 'x', metadata, tags: ['b', 'a', 'a'] }, ...notes], acme, signal)
    const { addedAt, ...found } = await get(knowledge, 'm')
    assert.deepEqual(found, { id: 'm', tags: ['a', 'b'], metadata, chunks: 1, bytes: 1, text: 'x' })
    assert.ok(Math.abs(Date.parse(addedAt) - Date.now()) < 86_400_000)
    assert.equal(await knowledge.remove({ id: 'm' }, acme, signal), 1)
    assert.equal(await knowledge.remove({ id: 'm' }, acme, signal), 0)
    await assert.rejects(get(knowledge, 'm'), { code: 'NOT_FOUND' })
    assert.equal(await knowledge.remove({ source: 'https://x.test/b' }, acme, signal), 2)
    assert.deepEqual(await ids(knowledge, 'settings invoice soup'), ['reset'])
  })

  inCase('a tenant finds, reads and removes nothing of another, and counts nothing of it', async (knowledge) => {
    await knowledge.add(notes, acme, signal)
    assert.deepEqual(await ids(knowledge, 'password settings', {}, umbrella), [])
    await assert.rejects(get(knowledge, 'reset', umbrella), { code: 'NOT_FOUND' })
    assert.equal(await knowledge.remove({ id: 'reset' }, umbrella, signal), 0)
    assert.equal(await knowledge.remove({ source: 'https://x.test/b' }, umbrella, signal), 0)
    const own = await knowledge.add([{ id: 'reset', text: 'Our own password.' }], umbrella, signal)
    assert.equal(own.documents[0]?.state, 'added')
    assert.equal((await get(knowledge, 'reset')).text, notes[0]?.text)
    assert.deepEqual(await ids(knowledge, 'password', {}, umbrella), ['reset'])
  })

  inCase('pages follow on each other without a gap, in the same order each time', async (knowledge) => {
    const many = Array.from({ length: 23 }, (_, n) => ({
      id: `n${String(n).padStart(2, '0')}`,
      text: 'An equal text about apples.',
    }))
    await knowledge.add(many, acme, signal)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await knowledge.search({ query: 'apples', limit: 5, cursor }, acme, signal)
      seen.push(...page.items.map(({ id }) => id))
      cursor = page.cursor
    } while (cursor !== undefined)
    assert.deepEqual(
      seen,
      many.map(({ id }) => id),
    )
    const { cursor: first } = await knowledge.search({ query: 'apples', limit: 5 }, acme, signal)
    await assert.rejects(knowledge.search({ query: 'pears', cursor: first }, acme, signal), { code: 'INPUT_INVALID' })
    await assert.rejects(knowledge.search({ query: 'apples', cursor: 'AAAA' }, acme, signal), { code: 'INPUT_INVALID' })
  })

  for (const one of hardCases) cases.push(one)

  test(name, async (t) => {
    const make = await open(t)
    for (const [title, body, setup = {}] of cases) await t.test(title, async () => body(await make(setup)))
  })
}
