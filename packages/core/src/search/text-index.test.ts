import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readSearchCursor, writeSearchCursor } from './cursor.ts'
import type { Document } from './document.ts'
import { TextIndex } from './text-index.ts'

function document(key: string, changes: Partial<Document> = {}): Document {
  const [namespace = '', name = ''] = key.split(':')
  return { key, namespace, name, description: 'Does something.', ...changes }
}

function index(...documents: readonly Document[]): TextIndex {
  const made = new TextIndex()
  for (const each of documents) made.add(each)
  return made
}

function keys(made: TextIndex, query: string, limit = 10): string[] {
  return made.search(made.plan(query), undefined, limit).map(({ key }) => key)
}

const github = index(
  document('github:create_issue', { description: 'Opens a new ticket in a repository.' }),
  document('github:create_issue_comment', { description: 'Adds a comment.' }),
  document('github:list_issues', { description: 'Lists tickets.' }),
  document('github:merge_pull_request', { description: 'Merges a branch.' }),
  document('slack:send_message', { description: 'Posts a text to a channel.', tags: ['chat'] }),
)

test('a name with all words of the query ranks first, and the shorter of two names before the longer', () => {
  assert.deepEqual(keys(github, 'create an issue').slice(0, 2), ['github:create_issue', 'github:create_issue_comment'])
  assert.equal(keys(github, 'github:create_issue')[0], 'github:create_issue')
  assert.equal(keys(github, 'createIssueComment')[0], 'github:create_issue_comment')
})

test('descriptions, tags, prefixes, joined words and typos also match', () => {
  assert.deepEqual(keys(github, 'channel'), ['slack:send_message'])
  assert.deepEqual(keys(github, 'chat'), ['slack:send_message'])
  assert.deepEqual(keys(github, 'repo'), ['github:create_issue'])
  assert.equal(keys(github, 'sendmessage')[0], 'slack:send_message')
  assert.deepEqual(keys(github, 'mesage'), ['slack:send_message'])
  assert.deepEqual(keys(github, 'repozitori'), ['github:create_issue'])
})

test('words that no document holds, and short words with a typo, match nothing', () => {
  assert.deepEqual(keys(github, 'kubernetes'), [])
  assert.deepEqual(keys(github, 'txt'), [])
  assert.deepEqual(keys(github, '!!!'), [])
})

test('the index corrects a typo only when the word itself is unknown', () => {
  const both = index(document('a:form'), document('a:from_x', { description: 'forms' }), document('a:farm'))
  assert.ok(!keys(both, 'form').includes('a:farm'))
})

test('a word in the name outranks the same word repeated in a description', () => {
  const stuffed = index(
    document('spam:tool', { description: 'email '.repeat(500) }),
    document('mail:send_email', { description: 'Sends a text to a person by post.' }),
  )
  assert.equal(keys(stuffed, 'email')[0], 'mail:send_email')
})

test('a lowered document ranks below an equal one', () => {
  const made = index(document('a:copy', { lowered: true }), document('b:copy'))
  assert.deepEqual(keys(made, 'copy'), ['b:copy', 'a:copy'])
})

test('equal scores sort by key, regardless of insertion order', () => {
  const names = ['x:c', 'x:a', 'x:bb', 'x:b']
  const made = index(...names.map((key) => document(key, { name: 'same' })))
  assert.deepEqual(keys(made, 'same'), names.toSorted())
})

test('search checks permission in rank order and stops when it has enough hits', () => {
  const made = index(...Array.from({ length: 500 }, (_, at) => document(`x:${at + 100}`, { name: 'same' })))
  const asked: string[] = []
  const allow = (key: string) => {
    asked.push(key)
    return key !== 'x:100'
  }
  assert.deepEqual(
    made.search(made.plan('same'), undefined, 2, allow).map(({ key }) => key),
    ['x:101', 'x:102'],
  )
  assert.deepEqual(asked, ['x:100', 'x:101', 'x:102'])
})

test('a search made inside a permission check does not affect the outer search', () => {
  const inner: string[][] = []
  const allow = () => {
    inner.push(keys(github, 'message'))
    return true
  }
  const hits = github.search(github.plan('issue'), undefined, 10, allow)
  assert.deepEqual(
    hits.map(({ key }) => key),
    keys(github, 'issue'),
  )
  for (const found of inner) assert.deepEqual(found, ['slack:send_message'])
})

test('hostile text is indexed within bounds', () => {
  const made = index(
    document('x:huge', { description: 'word '.repeat(1_000_000) }),
    document('x:noise', { description: '\u0000\u202e\ud800'.repeat(10_000), tags: ['\u0000'] }),
    document('x:__proto__', { description: '__proto__ constructor toString' }),
  )
  assert.deepEqual(keys(made, 'constructor'), ['x:__proto__'])
  assert.deepEqual(keys(made, 'proto'), ['x:__proto__'])
  assert.deepEqual(keys(made, 'word '.repeat(100_000)), ['x:huge'])
})

const words = fc.constantFrom('red', 'green', 'blue', 'redder', 'thing', 'things', 'alpha', 'alpah')
const step = fc.record({
  name: fc.nat(15),
  text: fc.array(words, { maxLength: 5 }).map((list) => list.join(' ')),
  remove: fc.boolean(),
})

test('an index after any changes answers like a newly built one', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), words, words, (steps, one, two) => {
      const changed = new TextIndex()
      const model = new Map<string, Document>()
      for (const { name, text, remove } of steps) {
        const key = `n:t${name}`
        if (remove) {
          assert.equal(changed.remove(key), model.delete(key))
        } else {
          model.set(key, document(key, { description: text, lowered: name % 3 === 0 }))
          changed.add(document(key, { description: text, lowered: name % 3 === 0 }))
        }
      }
      const fresh = index(...model.values())
      const query = `${one} ${two}`
      assert.equal(changed.size, model.size)
      assert.deepEqual(changed.plan(query), fresh.plan(query))
      assert.deepEqual(
        changed.search(changed.plan(query), undefined, 100),
        fresh.search(fresh.plan(query), undefined, 100),
      )
    }),
  )
})

test('compaction after thousands of removals does not change search results', () => {
  const all = Array.from({ length: 6_000 }, (_, at) =>
    document(`n:tool_${at}`, { description: `common word${at % 50}` }),
  )
  const made = index(...all)
  for (const { key } of all.slice(0, 5_000)) made.remove(key)
  const fresh = index(...all.slice(5_000))
  for (const query of ['common', 'word7', 'tool 5500', 'comon']) {
    assert.deepEqual(made.search(made.plan(query), undefined, 50), fresh.search(fresh.plan(query), undefined, 50))
  }
})

test('a word common to most of a large corpus only refines the hits of a rare word', () => {
  const made = index(...Array.from({ length: 6_000 }, (_, at) => document(`n:t${at}`, { description: 'common' })))
  made.add(document('n:special', { description: 'common rare' }))
  made.add(document('n:other', { description: 'rare filling' }))
  assert.deepEqual(keys(made, 'rare common'), ['n:special', 'n:other'])
  assert.equal(keys(made, 'common').length, 10)
})

test('an alias matches, ranks below an equal name or title, and many aliases do not raise the rank', () => {
  const made = index(
    document('a:open_ticket', { aliases: ['b:file_report'] }),
    document('c:file_report'),
    document('d:write', { title: 'File report' }),
  )
  assert.deepEqual(keys(made, 'file report'), ['c:file_report', 'd:write', 'a:open_ticket'])
  assert.deepEqual(keys(made, 'b:file_report').at(-1), 'd:write')
  const many = Array.from({ length: 20 }, (_, at) => `a:x${at}_report`)
  const stuffed = index(document('a:one', { aliases: many }), document('c:report'))
  assert.equal(keys(stuffed, 'report')[0], 'c:report')
})

test('a namespace repeated in aliases does not raise the rank', () => {
  const aliases = ['git:x', 'git:y', 'git:z']
  const made = index(document('git:one', { aliases }), document('git:two'))
  assert.deepEqual(keys(made, 'git'), ['git:two', 'git:one'])
})

test('a query is read to its end: a word far beyond the 32nd matches', () => {
  const filler = Array.from({ length: 100 }, (_, at) => `the filler${at}`).join(' ')
  assert.equal(
    keys(github, `I would like that ${filler} and then a text is posted to a channel`)[0],
    'slack:send_message',
  )
})

test('the words at the end of a query of 400,000 characters match', () => {
  const filler = Array.from({ length: 40_000 }, (_, at) => `filler${at}`).join(' ')
  const question = `I would like that ${filler} and then a text is posted to a channel`
  assert.ok(question.length > 400_000)
  assert.equal(keys(github, question)[0], 'slack:send_message')
  assert.equal(keys(github, `${'x'.repeat(900_000)} post message to channel`)[0], 'slack:send_message')
  assert.equal(keys(github, `${'the\n'.repeat(200_000)} post message to channel`)[0], 'slack:send_message')
})

test('for a question, a matching description outranks a name that happens to hold some of its words', () => {
  const made = index(
    document('cinema:showtimes', { description: 'Finds films that theatres near a place show in the evening.' }),
    document('room:hotel_evening', { description: 'Orders drinks.' }),
  )
  const question = 'Which of the new films will be shown by theatres near my hotel this evening?'
  assert.deepEqual(keys(made, question), ['cinema:showtimes', 'room:hotel_evening'])
  assert.equal(keys(made, 'hotel evening')[0], 'room:hotel_evening')
})

test('inflected words of a question match the base form in a description', () => {
  const made = index(
    document('travel:reserve', { description: 'Book a flight for a traveller.' }),
    document('travel:other', { description: 'Anything else.' }),
  )
  assert.deepEqual(keys(made, 'I was thinking of booking something with flights in it for my holidays'), [
    'travel:reserve',
  ])
})

test('the plan of a long query has bounded size and keeps the rarest words', () => {
  const made = new TextIndex()
  for (let at = 0; at < 600; at += 1)
    made.add(document(`a:n${at}`, { description: `shared word${at} ${'x'.repeat(60)}${at}` }))
  const words = Array.from({ length: 600 }, (_, at) => `word${at} ${'x'.repeat(60)}${at}`)
  const plan = made.plan(`the shared ${words.join(' ')}`)
  assert.ok(plan.terms.length + plan.refining.length <= 256)
  const cursor = writeSearchCursor('0'.repeat(16), { plan, last: { score: 1, key: 'k'.repeat(512) }, top: 0 })
  assert.ok(cursor.length <= 8_192, `${cursor.length}`)
  assert.deepEqual(readSearchCursor('0'.repeat(16), cursor).plan, plan)
  assert.ok(plan.terms.every(([term]) => term !== 'shared'))
})
