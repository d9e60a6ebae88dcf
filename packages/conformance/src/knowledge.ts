import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Issue, ToolError } from '@gantry/contract'
import type { Embedder } from '@gantry/core/internal/catalogs/embeddings'
import type {
  Knowledge,
  KnowledgeLimits,
  KnowledgeQuery,
  NewDocument,
  ReadDocument,
} from '@gantry/knowledge/internal/knowledge'

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

  inCase('a search finds texts by their words, best first, with source and position', async (knowledge) => {
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

  inCase('a search matches inflected words and words of a title', async (knowledge) => {
    await knowledge.add(notes, acme, signal)
    assert.deepEqual(await ids(knowledge, 'invoices'), ['invoice'])
    assert.deepEqual(await ids(knowledge, 'passwords'), ['reset'])
  })

  inCase('filters, phrases and excluded words narrow a search', async (knowledge) => {
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

  inCase('texts in many languages are found, also in scripts without spaces', async (knowledge) => {
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
    'a long text is split at paragraphs, each chunk is found, and the chunks join to the text',
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

  inCase(
    'adding the same document changes nothing, and adding other text under its id replaces it',
    async (knowledge) => {
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
    },
  )

  inCase('an add with a duplicate id is refused, and stores nothing', async (knowledge) => {
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

  inCase('a stored document is returned unchanged, and a removed one is NOT_FOUND', async (knowledge) => {
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

  inCase('a tenant cannot find, read, remove or replace documents of another', async (knowledge) => {
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

  inCase('pages of a search follow each other without gaps, in a stable order', async (knowledge) => {
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

/** How knowledge is to be made: empty, with these limits for each tenant. */
export interface KnowledgeSetup {
  readonly limits?: Partial<KnowledgeLimits>
  readonly embedder?: Embedder
}

export type KnowledgeCase = readonly [
  title: string,
  body: (knowledge: Knowledge) => Promise<void>,
  setup?: KnowledgeSetup,
]

export const signal: AbortSignal = new AbortController().signal
export const acme = 'acme'
export const umbrella = 'umbrella'

/** The results of a search, in their order. */
export async function ids(
  knowledge: Knowledge,
  query: string,
  more: Partial<KnowledgeQuery> = {},
  tenant = acme,
): Promise<string[]> {
  return (await knowledge.search({ query, ...more }, tenant, signal)).items.map(({ id }) => id)
}

/** A whole document. */
export function get(knowledge: Knowledge, id: string, tenant = acme): Promise<ReadDocument> {
  return knowledge.get(id, { from: 0, limit: 1_000 }, tenant, signal)
}

/** An embedder that knows two meanings, and fails at chosen texts. */
const animals: Embedder = {
  id: 'animals-1',
  async embed(texts) {
    if (texts.some((text) => text.includes('fails'))) throw new Error('it fails')
    return texts.map((text) => {
      if (/kitten|feline/.test(text)) return Float32Array.of(0, 2, 0)
      return /engine|oil/.test(text) ? Float32Array.of(3, 0, 0) : Float32Array.of(0, 0, 1)
    })
  },
}

/** Texts and queries that mean harm, limits, and an embedder that fails. */
export const hardCases: readonly KnowledgeCase[] = [
  [
    'hostile texts are stored unchanged, or without unstorable characters, and break no search',
    async (knowledge) => {
      const texts: { readonly [id: string]: string } = {
        nul: 'before\0after nulword',
        half: 'lone \ud800 surrogate halfword',
        word: `${'x'.repeat(200_000)} hugeword`,
        quotes: `' \\ " :* & | ! <-> ( ) quoteword'; drop table knowledge; --`,
        pairs: '😀'.repeat(3_000),
        lines: '\r\n\r\n\u2028\u0001lineword',
      }
      await knowledge.add(
        Object.entries(texts).map(([id, text]) => ({ id, text, title: `t\0${id}`, tags: [`'; -- \u2603${id}`] })),
        acme,
        signal,
      )
      for (const word of ['nulword', 'halfword', 'hugeword', 'quoteword', 'lineword'])
        assert.equal((await ids(knowledge, word)).length, 1, word)
      assert.equal((await get(knowledge, 'nul')).text, 'before\ufffdafter nulword')
      assert.equal((await get(knowledge, 'half')).text, 'lone \ufffd surrogate halfword')
      assert.equal((await get(knowledge, 'word')).text, texts.word)
      assert.equal((await get(knowledge, 'pairs')).text, texts.pairs)
      assert.deepEqual(await ids(knowledge, 'nulword', { tags: ["'; -- \u2603nul"] }), ['nul'])
      const queries = [
        "quoteword'",
        'quoteword & !',
        "':* | (",
        '"quoteword',
        'quoteword <-> <',
        '\0quoteword',
        '\ud800 quoteword',
        `${'y'.repeat(900)} quoteword`,
        'quoteword -',
        '- - -"" ""',
        '!!!',
        'quoteword\\',
      ]
      for (const query of queries) {
        const found = await ids(knowledge, query)
        assert.deepEqual(found, query.includes('quoteword') ? ['quotes'] : [], JSON.stringify(query))
      }
      await assert.rejects(knowledge.add([{ text: ' \n' }], acme, signal), { code: 'INPUT_INVALID' })
      const metadata = { long: 'x'.repeat(20_000) }
      await assert.rejects(knowledge.add([{ text: 'x', metadata }], acme, signal), { code: 'INPUT_INVALID' })
    },
  ],

  [
    'a tenant has a limit of documents and bytes, and an add over the limit stores nothing',
    async (knowledge) => {
      await knowledge.add(
        [
          { id: 'a', text: 'one apple' },
          { id: 'b', text: 'two apples' },
        ],
        acme,
        signal,
      )
      const more = [
        { id: 'c', text: 'three' },
        { id: 'd', text: 'four' },
      ]
      const limit = { code: 'LIMIT_EXCEEDED', effect: 'none' }
      await assert.rejects(knowledge.add(more, acme, signal), { ...limit, message: /3 documents/ })
      await assert.rejects(get(knowledge, 'c'), { code: 'NOT_FOUND' })
      await assert.rejects(knowledge.add([{ id: 'c', text: 'x'.repeat(100) }], acme, signal), {
        ...limit,
        message: /100 bytes/,
      })
      await knowledge.add([{ id: 'a', text: 'y'.repeat(80) }], acme, signal)
      await assert.rejects(knowledge.add([{ id: 'c', text: 'z'.repeat(20) }], acme, signal), limit)
      await knowledge.add([{ id: 'c', text: 'x'.repeat(100) }], umbrella, signal)
      await knowledge.remove({ id: 'a' }, acme, signal)
      await knowledge.add(more, acme, signal)
    },
    { limits: { documents: 3, bytes: 100 } },
  ],

  [
    'concurrent adds do not exceed the limit together',
    async (knowledge) => {
      const adding = Array.from({ length: 8 }, (_, index) =>
        knowledge.add([{ id: `at-once-${index}`, text: 'x'.repeat(20) }], acme, signal),
      )
      const added = await Promise.allSettled(adding)
      const refused = added.filter(({ status }) => status === 'rejected')
      assert.equal(refused.length, 3)
      for (const { reason } of refused as PromiseRejectedResult[]) assert.equal(reason.code, 'LIMIT_EXCEEDED')
      await assert.rejects(knowledge.add([{ text: 'x' }], acme, signal), { code: 'LIMIT_EXCEEDED' })
    },
    { limits: { documents: 100, bytes: 100 } },
  ],

  [
    'with an embedder a text is also found by meaning, and without one by words only',
    async (knowledge) => {
      await knowledge.add(
        [
          { id: 'cat', text: 'A kitten sleeps.' },
          { id: 'car', text: 'The engine needs oil.' },
        ],
        acme,
        signal,
      )
      assert.deepEqual(await ids(knowledge, 'feline'), ['cat'])
      assert.deepEqual(await ids(knowledge, 'oil'), ['car'])
      const page = await knowledge.search({ query: 'oil fails' }, acme, signal)
      assert.deepEqual([page.items.map(({ id }) => id), page.warning?.code], [['car'], 'BACKEND_UNAVAILABLE'])
      const added = await knowledge.add([{ id: 'sad', text: 'This fails to embed.' }], acme, signal)
      assert.equal(added.warning?.code, 'BACKEND_UNAVAILABLE')
      assert.deepEqual(await ids(knowledge, 'embed'), ['sad'])
    },
    { embedder: animals },
  ],
]
