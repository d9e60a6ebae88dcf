/**
 * Compares our JSON Schema engine with others and prints a Markdown table.
 * `node bench/schema-engines.ts` installs the others into a temporary folder; needs the test suite in ../shared/data.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { compileSchema } from '../packages/json-schema/src/index.ts'

type Schema = boolean | Record<string, unknown>
type Check = (value: unknown) => boolean | Promise<boolean>
type Draft = 'draft2020-12' | 'draft7'
type Documents = ReadonlyMap<string, Schema>

/** One engine: a fresh compiler for a draft and the documents it may refer to. */
interface Engine {
  readonly name: string
  open(draft: Draft, documents: Documents): Promise<(schema: Schema) => Check | Promise<Check>>
}

interface Group {
  readonly schema: Schema
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[]
}

const suite = join(import.meta.dirname, '../../shared/data/json-schema-test-suite')
const packages = ['ajv@8', '@hyperjump/json-schema@1', '@cfworker/json-schema@4']
const uris = {
  'draft2020-12': 'https://json-schema.org/draft/2020-12/schema',
  draft7: 'http://json-schema.org/draft-07/schema#',
}

const toolSchema: Schema = {
  type: 'object',
  properties: {
    query: { type: 'string', minLength: 1, maxLength: 200 },
    limit: { type: 'integer', minimum: 1, maximum: 100 },
    order: { enum: ['asc', 'desc'] },
    tags: {
      type: 'array',
      items: {
        type: 'object',
        properties: { name: { type: 'string' }, weight: { type: 'number' } },
        required: ['name'],
      },
    },
    verbose: { type: 'boolean' },
  },
  required: ['query', 'limit'],
  additionalProperties: false,
}
const smallSchema: Schema = {
  type: 'object',
  properties: { a: { type: 'number' }, b: { type: 'number' } },
  required: ['a', 'b'],
}
const toolValues = Array.from({ length: 64 }, (_, index) => ({
  query: `find ${index}`,
  limit: 1 + index,
  order: index % 2 === 0 ? 'asc' : 'desc',
  tags: [{ name: 'x', weight: 1 }, { name: 'y' }],
  verbose: true,
}))
const smallValues = Array.from({ length: 64 }, (_, index) => ({ a: index, b: index + 1 }))

const progress = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** The engines; the others are imported from the folder they were installed in. */
function enginesIn(folder: string): Engine[] {
  const load = createRequire(join(folder, 'x.js'))
  const importFrom = (name: string): Promise<unknown> => import(pathToFileURL(load.resolve(name)).href)
  return [
    {
      name: 'gantry',
      open: async (_draft, documents) => (schema) => compileSchema(schema, { documents }).check,
    },
    {
      name: 'ajv',
      async open(draft, documents) {
        const loaded = load(draft === 'draft7' ? 'ajv' : 'ajv/dist/2020') as { default: new (options: object) => Ajv }
        const ajv = new loaded.default({ strict: false, logger: false, validateSchema: false })
        for (const [uri, schema] of documents) ignoreErrors(() => ajv.addSchema(schema, uri))
        return (schema) => ajv.compile(schema)
      },
    },
    {
      name: 'typebox',
      async open(_draft, documents) {
        const { Compile } = (await import('typebox/schema')) as unknown as {
          Compile(context: object, schema: Schema): { Check(value: unknown): boolean }
        }
        return (schema) => {
          const validator = Compile(Object.fromEntries(documents), schema)
          return (value) => validator.Check(value)
        }
      },
    },
    {
      name: 'hyperjump',
      async open(draft, documents) {
        const name = draft === 'draft7' ? '@hyperjump/json-schema/draft-07' : '@hyperjump/json-schema/draft-2020-12'
        const hyperjump = (await importFrom(name)) as Hyperjump
        for (const [uri, schema] of documents) ignoreErrors(() => hyperjump.registerSchema(schema, uri, uris[draft]))
        let count = 0
        return async (schema) => {
          const uri = `https://bench.invalid/${count++}`
          hyperjump.registerSchema(schema, uri, uris[draft])
          try {
            const validator = await hyperjump.validate(uri)
            return (value) => validator(value).valid
          } finally {
            hyperjump.unregisterSchema(uri)
          }
        }
      },
    },
    {
      name: 'cfworker',
      async open(draft, documents) {
        const { Validator } = (await importFrom('@cfworker/json-schema')) as {
          Validator: new (...of: unknown[]) => Cfworker
        }
        return (schema) => {
          const validator = new Validator(schema, draft === 'draft7' ? '7' : '2020-12', true)
          for (const [uri, document] of documents) ignoreErrors(() => validator.addSchema(document, uri))
          return (value) => validator.validate(value).valid
        }
      },
    },
  ]
}

interface Ajv {
  addSchema(schema: Schema, uri: string): void
  compile(schema: Schema): (value: unknown) => boolean
}
interface Hyperjump {
  registerSchema(schema: Schema, uri: string, dialect: string): void
  unregisterSchema(uri: string): void
  validate(uri: string): Promise<(value: unknown) => { valid: boolean }>
}
interface Cfworker {
  addSchema(schema: Schema, uri: string): void
  validate(value: unknown): { valid: boolean }
}

function ignoreErrors(run: () => void): void {
  try {
    run()
  } catch {
    // A document of a draft that the engine does not support.
  }
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'))

function readRemotes(folder: string, uri: string, documents = new Map<string, Schema>()): Map<string, Schema> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) readRemotes(path, `${uri}${entry.name}/`, documents)
    else documents.set(uri + entry.name, readJson(path) as Schema)
  }
  return documents
}

/** Cases of a draft with the right verdict; a fresh compiler per group, because the groups share `$id`s. */
async function countPassed(engine: Engine, draft: Draft, documents: Documents): Promise<string> {
  const folder = join(suite, 'tests', draft)
  let passed = 0
  let total = 0
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    for (const { schema, tests } of readJson(join(folder, file)) as Group[]) {
      total += tests.length
      const named = typeof schema === 'object' && !('$schema' in schema) ? { $schema: uris[draft], ...schema } : schema
      try {
        const check = await (await engine.open(draft, documents))(named)
        for (const { data, valid } of tests) if ((await attempt(() => check(data))) === valid) passed++
      } catch {
        // A schema that does not compile passes no case.
      }
    }
  }
  return `${passed}/${total}`
}

async function attempt(run: () => boolean | Promise<boolean>): Promise<boolean | undefined> {
  try {
    return await run()
  } catch {
    return undefined
  }
}

/** Microseconds to compile the tool schema once the engine is warm. */
async function timeCompile(engine: Engine): Promise<number> {
  const compile = await engine.open('draft2020-12', new Map())
  let best = Infinity
  for (let round = 0; round < 10; round++) {
    const schemas = Array.from({ length: 100 }, () => structuredClone(toolSchema))
    const start = performance.now()
    for (const schema of schemas) await compile(schema)
    best = Math.min(best, ((performance.now() - start) / schemas.length) * 1_000)
  }
  return best
}

/** Nanoseconds for one check, the best of several rounds. */
async function timeCheck(engine: Engine, schema: Schema, values: readonly unknown[]): Promise<number> {
  const check = await (await engine.open('draft2020-12', new Map()))(structuredClone(schema))
  let best = Infinity
  for (let round = 0; round < 10; round++) {
    const count = round < 2 ? 20_000 : 200_000
    const start = performance.now()
    for (let index = 0; index < count; index++) {
      if (check(values[index & 63]) !== true) throw new Error(`${engine.name} refused a valid value`)
    }
    if (round >= 2) best = Math.min(best, ((performance.now() - start) / count) * 1_000_000)
  }
  return best
}

/** Whether compiling evaluates generated code. */
async function generatesCode(engine: Engine): Promise<boolean> {
  const original = globalThis.Function
  let used = false
  globalThis.Function = new Proxy(original, {
    construct(target, parts) {
      used = true
      return Reflect.construct(target, parts)
    },
    apply(target, self, parts) {
      used = true
      return Reflect.apply(target, self, parts)
    },
  })
  try {
    await (await engine.open('draft2020-12', new Map()))(structuredClone(toolSchema))
  } finally {
    globalThis.Function = original
  }
  return used
}

/** Whether a catastrophic pattern ends within five seconds, tried in a process that can be stopped. */
function endsPattern(engine: Engine, folder: string): boolean {
  const run = spawnSync(process.execPath, [import.meta.filename, '--pattern', engine.name, folder], { timeout: 5_000 })
  if (run.status === 0) return true
  if (run.error !== undefined && 'code' in run.error && run.error.code === 'ETIMEDOUT') return false
  throw new Error(`${engine.name} could not be tried: ${run.stderr}`)
}

async function tryPattern(name: string, folder: string): Promise<void> {
  const engine = enginesIn(folder).find((candidate) => candidate.name === name)
  const compile = await engine?.open('draft2020-12', new Map())
  const check = await compile?.({ type: 'string', pattern: '^(a|a)*$' })
  if (check === undefined || (await check('aa')) !== true) throw new Error(`${name} does not know patterns`)
  await check(`${'a'.repeat(40)}!`)
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'schema-engines-'))
  try {
    progress(`Installing ${packages.join(', ')} into ${folder} …`)
    execFileSync('npm', ['i', '--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts', ...packages])
    const documents = readRemotes(join(suite, 'remotes'), 'http://localhost:1234/')
    console.log(
      '| engine | 2020-12 | draft-07 | compile µs | check ns, tool | check ns, small | bad pattern ends | makes code |',
    )
    console.log('| --- | --- | --- | --- | --- | --- | --- | --- |')
    for (const engine of enginesIn(folder)) {
      progress(`${engine.name}: speed …`)
      const compile = await timeCompile(engine)
      const tool = await timeCheck(engine, toolSchema, toolValues)
      const small = await timeCheck(engine, smallSchema, smallValues)
      progress(`${engine.name}: safety …`)
      const ends = endsPattern(engine, folder) ? 'yes' : 'no'
      const code = (await generatesCode(engine)) ? 'yes' : 'no'
      progress(`${engine.name}: test suite …`)
      const passed = await countPassed(engine, 'draft2020-12', documents)
      const legacy = await countPassed(engine, 'draft7', documents)
      const times = [compile, tool, small].map((time) => time.toFixed(0)).join(' | ')
      console.log(`| ${engine.name} | ${passed} | ${legacy} | ${times} | ${ends} | ${code} |`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const [flag, name, folder] = process.argv.slice(2)
if (flag === '--pattern' && name !== undefined && folder !== undefined) await tryPattern(name, folder)
else await main()
