import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const root = dirname(import.meta.dirname)

/** Words that name no component, and names of parts that have other names now; CONTRIBUTING.md says what to write. */
const words = [
  'somebody|whoever|nobody|anybody|everybody|told|he|his|him|doors?|desks?|tellings',
  'hearers?|lookers-on|errands?|govern(?:s|ed|ing)?|mend(?:s|ed|ing)?|chores?|brought|strays?|dialogues?|riddles?|besides',
]
const banned = new RegExp(`\\b(?:${words.join('|')})\\b`, 'gi')

const folders: readonly string[] = [
  '',
  '.changeset/',
  'bench/**/',
  'docs/**/',
  'examples/**/',
  'packages/*/',
  'packages/*/{bin,examples,migrations,native,src,test}/**/',
  'scripts/**/',
  'test/**/',
]
const endings = '*.{c,cpp,h,md,mjs,mts,proto,py,sql,ts,txt}'

/** Folders, and pages that quote their tests, that are still to be rewritten; one without a find leaves the list. */
const unfinished: readonly string[] = []

interface Allowed {
  /** A file, or a folder that ends with a slash. */
  readonly at: string
  /** What the line holds; absent where the whole file is meant. */
  readonly text?: string
  readonly why: string
}

const allowed: readonly Allowed[] = [
  { at: 'test/words.test.ts', why: 'it lists the words' },
  { at: 'docs/decisions/', why: 'dated records, which keep the words of their time' },
  { at: '.changeset/packages.md', text: '`ProgramJournal.told`', why: 'the former name, for users who rename it' },
  { at: 'docs/observability.md', text: '`gantry.door`', why: 'the name of a span attribute' },
  { at: 'packages/service/migrations/', why: 'shipped migrations, which are never edited' },
  { at: 'packages/service/test/', text: "'gantry.door'", why: 'the name of a span attribute' },
  { at: 'packages/service/src/admission/intake.ts', text: "'gantry.door'", why: 'the name of a span attribute' },
  {
    at: 'packages/service/src/http/handle-request.ts',
    text: "principal: 'nobody'",
    why: 'the principal of open routes',
  },
  { at: 'packages/service/src/storage/audit/', text: "'stray'", why: 'the kind of an entry of exported audit logs' },
  { at: 'packages/service/src/storage/audit/entries.ts', text: "stray: ['kind'", why: 'its members' },
  { at: 'packages/core/src/search/tokenize.ts', text: 'about also am', why: 'the stop words of English' },
  { at: 'packages/sandbox/src/process/root-file-system.ts', text: 'nobody:x:65534', why: 'a user of /etc/passwd' },
  { at: 'packages/sandbox/src/process/root-file-system.test.ts', text: "'nobody'", why: 'a user of /etc/passwd' },
  {
    at: 'packages/sandbox-containers/src/images/root-file-system.ts',
    text: 'nobody:x:65534',
    why: 'a user of /etc/passwd',
  },
  { at: 'packages/sandbox-wasm/src/wasi/modules.test.ts', text: "'hey'", why: 'the first bytes of hey' },
]

interface Find {
  readonly file: string
  readonly line: number
  readonly text: string
  readonly word: string
}

const finds = globSync(
  folders.map((folder) => folder + endings),
  { cwd: root, exclude: (name) => name.includes('node_modules') },
)
  .sort()
  .flatMap(findsOf)

function findsOf(file: string): Find[] {
  const named = wordsIn(file).map((word) => ({ file, line: 0, text: file, word }))
  const lines = readFileSync(join(root, file), 'utf8').split('\n')
  return [...named, ...lines.flatMap((text, n) => wordsIn(text).map((word) => ({ file, line: n + 1, text, word })))]
}

/** The banned words of a line; `doorSubjects` and `door_subjects` hold one as well. */
function wordsIn(text: string): string[] {
  const apart = text.replaceAll('_', ' ').replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
  return [...apart.matchAll(banned)].map(([word]) => word)
}

const isAt = (file: string, at: string): boolean => (at.endsWith('/') ? file.startsWith(at) : file === at)
const allows = ({ at, text }: Allowed, find: Find): boolean =>
  isAt(find.file, at) && (text === undefined || find.text.includes(text))

test('no file uses a word that names no component, such as somebody, told, door, errand or besides', () => {
  const wrong = finds.filter(
    (find) => !unfinished.some((folder) => isAt(find.file, folder)) && !allowed.some((one) => allows(one, find)),
  )
  assert.deepEqual(
    wrong.map(({ file, line, word, text }) => `${file}:${line} "${word}": ${text.trim().slice(0, 120)}`),
    [],
  )
})

test('every allowed place still has such a word', (t) => {
  assert.deepEqual(
    allowed.filter((one) => !finds.some((find) => allows(one, find))),
    [],
  )
  const clean = unfinished.filter((folder) => !finds.some(({ file }) => isAt(file, folder)))
  if (clean.length > 0) t.diagnostic(`no longer unfinished: ${clean.join(', ')}`)
})
