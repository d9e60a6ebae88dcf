import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createExecutor, memoryCatalog, type Tool } from 'gantry'
import { cachedEngine } from '../scripts/engines/cache.ts'
import { generateTools } from './generated-tools.ts'
import { importPeer, peerVersions } from './peers.ts'
import { progress } from './progress.ts'
import type { Section } from './report.ts'

const collection = { package: 'bfcl-eval', version: '2026.3.23' }
const depths = [1, 5, 10] as const
/** With 100,000 tools MiniSearch is asked only one question in this many, because it takes seconds for each. */
const sampled = 8

interface Question {
  readonly text: string
  /** The tools that answer it. */
  readonly answers: readonly string[]
}

interface QuestionSet {
  readonly tools: readonly Tool[]
  readonly questions: readonly Question[]
}

type Find = (text: string) => Promise<readonly string[]>

/** How often the tool that answers a question is among the first results, beside plain BM25 and MiniSearch. */
export async function recall(): Promise<Section> {
  const folder = await download()
  const written = readSet(folder, ['simple_python', 'multiple', 'parallel', 'parallel_multiple', 'simple_java'])
  const live = readSet(folder, ['live_simple', 'live_multiple', 'live_parallel_multiple'])
  const rows: string[][] = []
  for (const [name, set, more] of [
    ['written questions', written, 0],
    ['questions of users', live, 0],
    ['questions of users', live, 10_000],
    ['questions of users', live, 100_000],
  ] as const) {
    const tools = [...set.tools, ...generateTools(more)]
    const label = `${name}, ${tools.length.toLocaleString('en-US')} tools`
    for (const [engine, make] of engines) {
      progress(`recall: ${label} in ${engine}`)
      const questions = heldOut(set.questions)
      const isSampled = more >= 100_000 && make === miniSearch
      const asked = isSampled ? questions.filter((_, at) => at % sampled === 0) : questions
      rows.push([label, engine, ...(await measure(await make(tools), asked))])
    }
  }
  return {
    title: 'Questions that find their tool',
    tables: [{ head: ['set', 'engine', ...depths.map((depth) => `recall@${depth} %`)], rows }],
    notes: [
      `Tools and questions are those of the Berkeley function-calling leaderboard (${collection.package} ${collection.version} of PyPI). Weights were chosen on every other question of each set, and of a third set that no registry has; the table is of the others.`,
      'A question may have several answers; recall is the part of them that is found. Tools beyond those of the set are made up, as in “Registration and search”; with 100,000 of them MiniSearch is asked one question in eight.',
      'Plain BM25 has k1 1.2 and b 0.75 over names, parted at case, `_` and dots, and descriptions. MiniSearch has both as fields with its defaults and the same parting.',
    ],
  }
}

const engines: ReadonlyMap<string, (tools: readonly Tool[]) => Promise<Find>> = new Map([
  ['**Gantry**', gantry],
  ['plain BM25', plainBm25],
  [`MiniSearch ${peerVersions.minisearch}`, miniSearch],
])

async function download(): Promise<string> {
  const { package: name, version } = collection
  const folder = await cachedEngine(name, version, async (draft) => {
    const flags = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--no-input', '--disable-pip-version-check']
    await promisify(execFile)('/usr/bin/python3', [...flags, '--target', draft, `${name}==${version}`])
  })
  return join(folder, 'bfcl_eval', 'data')
}

interface Row {
  readonly id: string
  readonly question: readonly (readonly { readonly role: string; readonly content: string }[])[]
  readonly function: readonly { readonly name: string; readonly description: string }[]
}

function readSet(folder: string, files: readonly string[]): QuestionSet {
  const tools = new Map<string, Tool>()
  const questions: Question[] = []
  for (const file of files) {
    const truth = new Map(
      lines<{ readonly id: string; readonly ground_truth: readonly object[] }>(
        join(folder, 'possible_answer', `BFCL_v4_${file}.json`),
      ).map(({ id, ground_truth }) => [id, ground_truth.flatMap(Object.keys)]),
    )
    for (const { id, question, function: functions } of lines<Row>(join(folder, `BFCL_v4_${file}.json`))) {
      for (const { name, description } of functions) {
        // Names that differ only in case collide, and the same function is in many rows.
        const key = name.toLowerCase()
        if (!tools.has(key)) tools.set(key, toolOf(name, description))
      }
      const text = question
        .flat()
        .filter(({ role }) => role === 'user')
        .map(({ content }) => content)
        .join(' ')
      const answers = new Set((truth.get(id) ?? []).flatMap((name) => tools.get(name.toLowerCase())?.name ?? []))
      if (answers.size > 0) questions.push({ text, answers: [...answers] })
    }
  }
  return { tools: [...tools.values()], questions }
}

function lines<T>(file: string): T[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T)
}

function toolOf(name: string, description: string): Tool {
  return {
    namespace: 'bfcl',
    name,
    version: '1.0.0',
    description: description || name,
    inputSchema: { type: 'object' },
    backends: [{ kind: 'local' }],
    effect: 'read',
  }
}

function heldOut(questions: readonly Question[]): readonly Question[] {
  return questions.filter((_, at) => at % 2 === 1)
}

async function measure(find: Find, questions: readonly Question[]): Promise<string[]> {
  const sums = depths.map(() => 0)
  for (const { text, answers } of questions) {
    const found = await find(text)
    depths.forEach((depth, at) => {
      const top = new Set(found.slice(0, depth))
      sums[at] = (sums[at] ?? 0) + answers.filter((name) => top.has(name)).length / answers.length
    })
  }
  return sums.map((sum) => ((100 * sum) / questions.length).toFixed(1))
}

async function gantry(tools: readonly Tool[]): Promise<Find> {
  const catalog = memoryCatalog()
  for (const tool of tools) catalog.register(tool)
  const executor = createExecutor({ catalog })
  return async (text) => (await executor.search(text, { limit: 10 })).items.map(({ id }) => id.replace(/^[^:]*:/, ''))
}

function parted(text: string): string[] {
  return (
    text
      .replaceAll(/([a-z\d])(?=[A-Z])/g, '$1 ')
      .toLowerCase()
      .match(/[a-z\d]+/g) ?? []
  )
}

async function plainBm25(tools: readonly Tool[]): Promise<Find> {
  const [k1, b] = [1.2, 0.75]
  const lengths: number[] = []
  const postings = new Map<string, [document: number, count: number][]>()
  tools.forEach(({ name, description }, document) => {
    const counts = new Map<string, number>()
    const words = parted(`${name} ${description}`)
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
    lengths.push(words.length)
    for (const [word, count] of counts) {
      const list = postings.get(word) ?? []
      list.push([document, count])
      postings.set(word, list)
    }
  })
  const average = lengths.reduce((sum, length) => sum + length, 0) / tools.length
  return async (text) => {
    const scores = new Map<number, number>()
    for (const word of new Set(parted(text))) {
      const list = postings.get(word) ?? []
      const idf = Math.log(1 + (tools.length - list.length + 0.5) / (list.length + 0.5))
      for (const [document, count] of list) {
        const norm = k1 * (1 - b + (b * (lengths[document] ?? 0)) / average)
        scores.set(document, (scores.get(document) ?? 0) + (idf * count * (k1 + 1)) / (count + norm))
      }
    }
    const best = [...scores].sort(([, one], [, other]) => other - one).slice(0, 10)
    return best.map(([document]) => tools[document]?.name ?? '')
  }
}

interface MiniSearch {
  add(document: object): void
  search(text: string): { readonly name: string }[]
}

async function miniSearch(tools: readonly Tool[]): Promise<Find> {
  const { default: MiniSearch } = await importPeer<{ default: new (options: object) => MiniSearch }>('minisearch')
  const index = new MiniSearch({ fields: ['name', 'description'], storeFields: ['name'], tokenize: parted })
  tools.forEach(({ name, description }, id) => {
    index.add({ id, name, description })
  })
  return async (text) =>
    index
      .search(text)
      .slice(0, 10)
      .map(({ name }) => name)
}
