import type { Json } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import { copyJson, JsonError, type JsonLimits } from '@gantry/core/internal/json/plain'
import { type Document, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import { type BoundedFile, readBoundedFile } from './bounded-file.ts'
import { configError } from './problem.ts'

const mostBytes = { json: 1_048_576, yaml: 262_144 }

/** A JSON or YAML configuration as plain data. */
export async function readDataConfig(file: string): Promise<Json> {
  return parseData(file, readText(file, file.endsWith('.json') ? mostBytes.json : mostBytes.yaml))
}

/** Reads a JSON or YAML file that a configuration names, of at most `limit` bytes. */
export async function readDataFile(file: string, limit: number): Promise<Json> {
  return parseData(file, readText(file, limit), { bytes: limit, depth: 200, nodes: 10_000_000 })
}

async function parseData(file: string, text: string, limits?: JsonLimits): Promise<Json> {
  try {
    if (file.endsWith('.json')) return parseJson(text, limits)
    const { parseYaml } = await import('./read-data.ts')
    return copyJson(parseYaml(file, text), limits === undefined ? {} : { limits })
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const issue = { path: error.path, message: error.message }
    throw configError(file, `The file ${file} is not valid.`, [issue])
  }
}

/** Reads a text file of a configuration; throws CONFIG_INVALID when it cannot. */
export function readText(file: string, limit: number): string {
  let found: BoundedFile
  try {
    found = readBoundedFile(file, limit)
  } catch (error) {
    throw configError(file, `The file ${file} cannot be read.`, [], error)
  }
  if (found.state === 'read') return found.text.replace(/^\ufeff/, '')
  const why = found.state === 'too-long' ? `longer than ${limit} bytes` : 'not a regular file'
  throw configError(file, `The file ${file} is ${why}.`, [])
}

/** Limit of reported errors: a few kilobytes can contain tens of thousands. */
const mostIssues = 20
/** Limit of aliases: each costs a walk over the document. */
const mostAliases = 100

interface Mistake {
  readonly at: number
  readonly message: string
}

/** Strict YAML: the core schema, no repeated keys, no merge keys, few aliases. */
export function parseYaml(file: string, text: string): unknown {
  const lines = new LineCounter()
  // The library's search for repeated keys and its pretty errors take quadratic time.
  const quick = { uniqueKeys: false, prettyErrors: false, lineCounter: lines }
  const document = parseDocument(text, { schema: 'core', merge: false, stringKeys: true, ...quick })
  const mistakes = [...document.errors, ...document.warnings].map(({ pos, message }) => ({ at: pos[0], message }))
  refuse(file, lines, mistakes)
  refuse(
    file,
    lines,
    deep(file, () => mistakesIn(document)),
  )
  return deep(file, () => document.toJS({ maxAliasCount: 50 }))
}

/** Runs a walk over a document; throws CONFIG_INVALID when it is too deep or its aliases expand too far. */
function deep<T>(file: string, walk: () => T): T {
  try {
    return walk()
  } catch (error) {
    throw configError(file, `The file ${file} cannot be read.`, [], error)
  }
}

function refuse(file: string, lines: LineCounter, mistakes: readonly Mistake[]): void {
  if (mistakes.length === 0) return
  const issues = mistakes.slice(0, mostIssues).map(({ at, message }) => {
    const [first = ''] = message.split('\n', 1)
    return { path: '', message: `line ${lines.linePos(at).line}: ${first}` }
  })
  const left = mistakes.length - issues.length
  if (left > 0) issues.push({ path: '', message: `and ${left} more` })
  throw configError(file, `The file ${file} is not valid YAML.`, issues)
}

/** Repeated keys, and the first alias over the limit. */
function mistakesIn(document: Document.Parsed): Mistake[] {
  const found: Mistake[] = []
  let aliases = 0
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>()
      for (const { key } of items) {
        if (!isScalar(key)) continue
        if (keys.has(key.value)) found.push({ at: key.range?.[0] ?? 0, message: 'Map keys must be unique' })
        keys.add(key.value)
      }
    },
    Alias(_, { range }) {
      aliases += 1
      if (aliases <= mostAliases) return
      found.push({ at: range?.[0] ?? 0, message: `There are more than ${mostAliases} aliases` })
      return visit.BREAK
    },
  })
  return found
}
