// One engine with one number of tools, in a process of its own, so that its heap holds nothing else.
import type { Tool } from 'gantry'
import { type Engine, gantryEngine, miniSearchEngine } from './catalog-engines.ts'
import { generateQueries, generateTools } from './generated-tools.ts'
import { liveBytes, median, quantile } from './measure.ts'

export interface CatalogFigures {
  /** Microseconds for one tool: the median and the 5th percentile of batches of a hundred. */
  readonly register: number
  readonly registerP5: number
  /** Milliseconds for the first search, which reads every tool into the index, and for one after that. */
  readonly firstSearch: number
  readonly searchP50: number
  readonly searchP99: number
  /** Bytes for one tool: everything the engine keeps, a plain copy of the tool, and a plain copy of its schema. */
  readonly bytes: number
  readonly toolBytes: number
  readonly schemaBytes: number
}

const [engineName = '', sizeText = ''] = process.argv.slice(2)
const size = Number(sizeText)
const warmTools = 10_000
const batchTools = 100
/** Registrations that are timed, at least. */
const measuredTools = 50_000
const searchMs = 5_000
const mostSearches = 3_000

try {
  process.send?.(await measure(engineName === 'minisearch' ? miniSearchEngine : gantryEngine))
} catch (error) {
  process.send?.({ failed: error instanceof Error ? error.message : String(error) })
}

async function measure(make: () => Promise<Engine>): Promise<CatalogFigures> {
  const warm = await make()
  for (const tool of generateTools(warmTools)) warm.add(tool)
  for (const query of generateQueries(100)) await warm.search(query)
  const speed = await registerTimes(make)
  const toolBytes = keptBytes((tool) => tool)
  const schemaBytes = keptBytes((tool) => tool.inputSchema)
  const before = liveBytes()
  const engine = await make()
  fill(engine, [])
  const [first] = generateQueries(1)
  const start = performance.now()
  if (first !== undefined) await engine.search(first)
  const firstSearch = performance.now() - start
  const bytes = (liveBytes() - before) / size
  const times = await searchTimes(engine)
  const [searchP50, searchP99] = [quantile(times, 0.5), quantile(times, 0.99)]
  return { ...speed, firstSearch, searchP50, searchP99, bytes, toolBytes, schemaBytes }
}

/** Fills fresh catalogs until enough tools were registered, because a small one has too few batches for a median. */
async function registerTimes(make: () => Promise<Engine>): Promise<Pick<CatalogFigures, 'register' | 'registerP5'>> {
  const batches: number[] = []
  while (batches.length * batchTools < measuredTools) fill(await make(), batches)
  return { register: median(batches), registerP5: quantile(batches, 0.05) }
}

/** Registers every tool, a hundred at a time, and drops the references; creating them is not counted. */
function fill(engine: Engine, batches: number[]): void {
  let batch: Tool[] = []
  for (const tool of generateTools(size)) {
    batch.push(tool)
    if (batch.length < batchTools) continue
    const start = performance.now()
    for (const one of batch) engine.add(one)
    batches.push(((performance.now() - start) * 1_000) / batchTools)
    batch = []
  }
}

/** The memory of the plain data alone, as parsed from JSON. */
function keptBytes(part: (tool: Tool) => unknown): number {
  const before = liveBytes()
  const kept: unknown[] = []
  for (const tool of generateTools(size)) kept.push(part(tool))
  const bytes = (liveBytes() - before) / size
  // Keeps the data alive until after the measurement.
  return kept.length === size ? bytes : Number.NaN
}

async function searchTimes(engine: Engine): Promise<number[]> {
  const queries = generateQueries(mostSearches)
  for (const query of queries.slice(0, 20)) await engine.search(query)
  const times: number[] = []
  const end = performance.now() + searchMs
  for (const query of queries) {
    const start = performance.now()
    await engine.search(query)
    const now = performance.now()
    times.push(now - start)
    if (now > end) break
  }
  return times
}
