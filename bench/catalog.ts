import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { CatalogFigures } from './catalog-process.ts'
import { peerVersions } from './peers.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

const sizes = [1_000, 10_000, 100_000]
const engines = { gantry: '**Gantry**', minisearch: `MiniSearch ${peerVersions.minisearch}` } as const
const longestMs = 120_000

type Outcome = CatalogFigures | { readonly failed: string }

/** Registration, search and memory as the catalog grows. */
export async function catalog(): Promise<Section> {
  const speed: string[][] = []
  const memory: string[][] = []
  for (const size of sizes) {
    const ours = await measure('gantry', size)
    const peer = await measure('minisearch', size)
    speed.push(speedRow(size, 'gantry', ours, ours), speedRow(size, 'minisearch', peer, ours))
    memory.push(memoryRow(size, 'gantry', ours), memoryRow(size, 'minisearch', peer))
  }
  const tables = [
    {
      head: [
        'tools',
        'register p50 µs',
        'target',
        'p5 µs',
        'first search ms',
        'search p50 ms',
        'target',
        'to Gantry',
        'p99 ms',
      ],
      rows: speed,
    },
    { head: ['tools', 'bytes a tool', 'plain tool', 'its schema', 'beyond schema', 'target'], rows: memory },
  ]
  return { title: 'Registration and search', tables, notes }
}

async function measure(engine: keyof typeof engines, size: number): Promise<Outcome> {
  progress(`catalog: ${size} tools in ${engine}`)
  const file = join(import.meta.dirname, 'catalog-process.ts')
  const child = fork(file, [engine, String(size)], { execArgv: ['--expose-gc', '--max-old-space-size=4096'] })
  const timer = setTimeout(() => child.kill(), longestMs)
  const gone = once(child, 'exit').then(([code]) => ({ failed: `its process ended with ${code ?? 'a signal'}` }))
  try {
    return await Promise.race([once(child, 'message').then(([message]) => message as Outcome), gone])
  } finally {
    clearTimeout(timer)
    child.kill()
  }
}

function label(size: number, engine: keyof typeof engines): string {
  return `${size.toLocaleString('en-US')}, ${engines[engine]}`
}

function speedRow(size: number, engine: keyof typeof engines, one: Outcome, ours: Outcome): string[] {
  if ('failed' in one) return [`${label(size, engine)}: not measured, ${one.failed}`]
  const [forRegister, forSearch] = engine === 'gantry' ? ['≤ 20', size === 100_000 ? '≤ 1' : ''] : ['', '']
  const beside = 'failed' in ours ? '–' : ratio(one.searchP50, ours.searchP50)
  const register = [figure(one.register), forRegister, figure(one.registerP5)]
  const search = [figure(one.firstSearch), figure(one.searchP50), forSearch, beside, figure(one.searchP99)]
  return [label(size, engine), ...register, ...search]
}

function memoryRow(size: number, engine: keyof typeof engines, one: Outcome): string[] {
  if ('failed' in one) return [`${label(size, engine)}: not measured, ${one.failed}`]
  const cells = [one.bytes, one.toolBytes, one.schemaBytes].map(figure)
  if (engine !== 'gantry') return [label(size, engine), ...cells, '–', '']
  return [label(size, engine), ...cells, figure(one.bytes - one.schemaBytes), '≤ 4,096']
}

const notes = [
  'Tools are made up from vocabularies of verbs, nouns and services: descriptions of 10 to 30 words with a long tail of rare ones, schemas of 2 to 5 properties. Queries have 1 to 4 words, a quarter with a typing error, a quarter ending in the beginning of a word; half come from a caller who may see half of the services.',
  'Registration is the median over batches of 100 tools, after 10,000 tools in another catalog to warm up, in as many fresh catalogs of this size as 50,000 registrations need; p5 is over the same batches. Gantry checks, copies and freezes each tool and its schema; the words are read by the first search after it, in slices that let other work through, which is the time under “first search”. MiniSearch only indexes, at once. A tool’s digest is worked out when first asked for, so neither its time nor its bytes are in these figures.',
  'Gantry searches through `executor.search`. MiniSearch has the same fields, with like weights, prefixes and fuzzy 0.2; it ranks every match, and the first ten are taken. Searching stops after 3,000 queries or 5 s, so at 100,000 tools MiniSearch has some hundreds of samples and its p99 is rough.',
  'Bytes a tool: live heap and typed arrays after a full collection, with the engine filled and nothing else kept, less the same before. "Plain tool" and "its schema" are the same data parsed from JSON and kept in an array, so "beyond schema" is what the catalog keeps in addition to a copy of the schema: the other fields, the entry, the names and the index. MiniSearch keeps no tool, only its index.',
]
