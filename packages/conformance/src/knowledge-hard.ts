import assert from 'node:assert/strict'
import type { Embedder } from '@gantry/core/internal/catalogs/embeddings'
import { acme, get, ids, type KnowledgeCase, signal, umbrella } from './knowledge-case.ts'

/** Knows two meanings, and what it is told to fail at. */
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
    'hostile texts are kept as they are, or without what cannot be kept, and break no search',
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
    'a tenant has room for so many documents and bytes, and an add that is too much adds nothing',
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
    'adds that come at once take no more room together than one after another',
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
    'with an embedder a text is found by its meaning too, and without it by its words',
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
