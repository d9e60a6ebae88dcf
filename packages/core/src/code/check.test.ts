import assert from 'node:assert/strict'
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sampleTool } from '@gantry/conformance/internal/catalog-pages'
import type { JsonSchema, Tool } from '@gantry/contract'
import { importOpenapi } from '@gantry/openapi'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { createSlots } from '../resilience/slots.ts'
import { checkedDeclarations, checkProgram, mentionsOf } from './check.ts'
import { compile } from './compiler.ts'

const { signal } = new AbortController()
const identity = { tenant: 'default', principal: 'test' } as never
const options = { identity, signal, slots: createSlots(), wallMs: 30_000 }

const add = sampleTool({
  namespace: 'math',
  name: 'add',
  inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  outputSchema: {
    type: 'object',
    properties: { sum: { type: 'number' }, note: { type: 'string' } },
    required: ['sum'],
  },
})
const odd = sampleTool({ namespace: 'my-ns', name: 'odd.tool', inputSchema: { type: 'object', properties: {} } })
const catalog: readonly Tool[] = [add, odd]

const inner = {
  async named({ namespaces, ids }: { namespaces: readonly string[]; ids: readonly string[] }) {
    const versioned = ids.includes('math:add:1.0.0') ? [{ id: 'math:add:1.0.0', tool: add }] : []
    const found = catalog.filter(
      ({ namespace, name }) => namespaces.includes(namespace) || ids.includes(`${namespace}:${name}`),
    )
    return [...versioned, ...found.map((tool) => ({ id: `${tool.namespace}:${tool.name}`, tool }))]
  },
}

function check(code: string, language: 'typescript' | 'javascript' | 'python' = 'typescript'): Promise<void> {
  return checkProgram(code, language, inner, options)
}

test('the check accepts correct calls, however the program names its tools', async () => {
  const programs = [
    'const { sum } = await tools.math.add({ a: 1, b: 2 })\nif (sum > 2) return sum\nreturn null',
    'const { math } = tools\nconst m = math\nreturn (await m.add({ a: 1, b: 2 })).sum.toFixed()',
    "return (await run('math:add', { a: 1, b: 2 })).sum * 2",
    "return await tools['my-ns']['odd.tool']()",
    'const id: string = JSON.parse("1")\nreturn await run(id, { any: 1 })',
    'const out = await Promise.all([1, 2].map((n) => tools.math.add({ a: n, b: n })))\nprint(out[0]?.sum)\nawait sleep(1)',
  ]
  programs.push(
    'try { await tools.math.add({ a: 1, b: 2 }) } catch (error) { return [error.code, error.details.issues] }',
    "return [await tools.math['add:1.0.0']({ a: 1, b: 2 }), await run('math:add:1.0.0', { a: 1, b: 2 })]",
    'const { note } = await tools.math.add({ a: 1, b: 2 })\nreturn note.length',
    'const seen = {}\nconst list = []\nfor (const n of [1, 2]) { seen[n] = true; list.push(n) }\nreturn [seen, list]',
    'function twice(x) { return x + x }\nreturn twice((await run("math:add", { a: 1, b: 2 })).sum)',
  )
  for (const program of programs) await assert.doesNotReject(check(program), program)
  await assert.doesNotReject(check('const x = {}\nx.a = await tools.math.add({ a: 1, b: 2 })\nreturn x', 'javascript'))
})

const wrong: readonly (readonly [what: string, code: string, line: number, column: number, message: RegExp])[] = [
  ['a wrong argument name', 'return 1\nawait tools.math.add({ a: 1, c: 2 })', 2, 30, /'c' does not exist/],
  ['a wrong type', "await tools.math.add({ a: '1', b: 2 })", 1, 24, /'string' is not assignable to type 'number'/],
  ['a missing argument', 'await tools.math.add({ a: 1 })', 1, 22, /Property 'b' is missing/],
  ['no arguments', 'await tools.math.add()', 1, 18, /Expected 1 arguments/],
  ['an unknown tool', 'await tools.math.ad({ a: 1 })', 1, 18, /did you mean "add"/],
  ['an unknown namespace', 'await tools.maths.add({ a: 1 })', 1, 13, /Property 'maths' does not exist/],
  ['an unknown id', "\n\nawait run('math:ad', {})", 3, 11, /There is no tool "math:ad" \(did you mean "math:add"\?\)/],
  ['wrong arguments by id', "await run('math:add', { a: 1 })", 1, 23, /'b' is missing/],
  [
    'an unknown member of an output',
    'return (await tools.math.add({ a: 1, b: 2 })).total',
    1,
    47,
    /'total' does not exist/,
  ],
  ['a syntax error', 'return (', 1, 9, /expected/],
]
for (const [what, code, line, column, message] of wrong) {
  test(`the check finds ${what}, and reports its position, a frame and the signature of the tool`, async () => {
    await assert.rejects(check(code), (error: Error & { code: string; effect: string; details: Details }) => {
      assert.deepEqual([error.code, error.effect], ['CODE_INVALID', 'none'])
      assert.match(error.message, message)
      assert.deepEqual([error.details.line, error.details.column], [line, column])
      assert.match(error.details.frame, /\^/)
      if (code.includes('add(')) assert.match(error.details.signature ?? 'add(args', /add\(args/)
      return true
    })
  })
}

interface Details {
  readonly line: number
  readonly column: number
  readonly frame: string
  readonly signature?: string
}

test('the check of a workflow reports positions in the workflow', async () => {
  const workflow = (code: string) => checkProgram(code, 'workflow', inner, options)
  await workflow(
    's := run("math:add", {a: 1, b: 2})\nfor x in [1] { retry(2) { print(s.sum + x, len([x])) } }\nreturn s',
  )
  const wrong: readonly (readonly [string, number, number, RegExp])[] = [
    ['x := 1\nrun("math:add", {a: 1,\n  c: 2})', 3, 3, /'c' does not exist/],
    ['x := run("math:ad", {a: 1})', 1, 10, /There is no tool "math:ad" \(did you mean "math:add"\?\)/],
    ['print(run("math:add", {a: "1", b: 2}))', 1, 24, /'string' is not assignable to type 'number'/],
    ['x := ', 1, 6, /a value is expected/],
  ]
  for (const [code, line, column, message] of wrong) {
    await assert.rejects(workflow(code), (error: Error & { code: string; details: Details }) => {
      assert.match(error.message, message)
      assert.deepEqual([error.code, error.details.line, error.details.column], ['CODE_INVALID', line, column], code)
      return true
    })
  }
})

test('the check refuses a language that it does not support', async () => {
  await assert.rejects(check('return 1', 'python'), { code: 'INPUT_INVALID' })
})

test('the check reads no file that the program refers to', async () => {
  const secret = join(import.meta.dirname, '../../package.json')
  const program = [
    `/// <reference path="${secret}" />`,
    `/// <reference types="node" />`,
    `import data from ${JSON.stringify(secret)}`,
    'const n: number = data.name',
    'const b: Buffer = 1',
  ].join('\n')
  await assert.rejects(check(program), (error: Error & { details: object }) => {
    assert.ok(!JSON.stringify([error.message, error.details]).includes('@gantry/core"'))
    return /Cannot find name 'Buffer'/.test(error.message)
  })
})

test('an aborted check ends and leaves no folder', async (t) => {
  const own = mkdtempSync(join(tmpdir(), 'gantry-test-'))
  t.after(() => {
    process.env.TMPDIR = before
    rmSync(own, { recursive: true })
  })
  const before = tmpdir()
  process.env.TMPDIR = own
  const stop = new AbortController()
  const checking = checkProgram('return 1', 'typescript', inner, { ...options, signal: stop.signal })
  stop.abort(new Error('called off'))
  await assert.rejects(checking, { message: 'called off' })
  await check('return 1')
  assert.deepEqual(readdirSync(own), [])
})

test('mentionsOf finds the namespaces and tool ids that a program names', () => {
  const { namespaces, ids, words } = mentionsOf(
    `tools.a.b(); tools?.c; tools [ 'd-e' ]['f.g']; const { h, i: j, ...k } = tools; run("l:m"); sometools.no`,
  )
  assert.deepEqual([...namespaces].sort(), ['...k', 'a', 'c', 'd-e', 'h', 'i', 'l'])
  assert.deepEqual(ids, ['l:m'])
  assert.ok(words.has('b') && words.has('f.g'))
})

/** The diagnostics of declarations alone. */
async function faultsOf(tools: readonly Tool[]): Promise<readonly unknown[]> {
  return compile({ name: 'main.ts', text: checkedDeclarations(tools, []) }, '', options)
}

test('the declarations of built-in tools and of published OpenAPI documents compile', async () => {
  const folder = join(import.meta.dirname, '../../../../node_modules/@readme/oas-examples')
  const files = existsSync(folder) ? globSync('3.[01]/json/*.json', { cwd: folder }) : []
  const published = files.flatMap((file, index) => {
    const document = JSON.parse(readFileSync(join(folder, file), 'utf8'))
    return importOpenapi(document, { name: `api${index}`, baseUrl: 'https://api.example.com' }).tools
  })
  const tools = [...builtinTools().map(({ tool }) => tool), ...published]
  assert.ok(tools.length > 300)
  assert.deepEqual(await faultsOf(tools), [])
  assert.equal((await faultsOf([{ ...add, inputSchema: { type: 'object', properties: {} } }, add])).length > 0, true)
})

test('hostile names, descriptions and schemas compile, and declare nothing but their tool', async () => {
  const nasty = '*/ } declare const evil: 1; /* "` \u2028 @ts-nocheck'
  const schemas: readonly JsonSchema[] = [
    {
      type: 'object',
      properties: { [nasty]: { type: 'string', description: nasty, default: nasty } },
      required: [nasty],
    },
    { type: 'object', properties: { a: { enum: [nasty, '"', "'", '\\', '\n', '$' + '{x}'] } } },
    JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"const":1}}}'),
    { $ref: '#' },
    { type: 'object', properties: { self: { $ref: '#' }, list: { type: 'array', items: { $ref: '#' } } } },
    { type: ['object', 'null', 'array'], anyOf: [{ minimum: 1 }, { enum: [] }, false] },
  ]
  const tools = schemas.map((schema, index) =>
    sampleTool({ namespace: 'x', name: `t${index}`, description: nasty, inputSchema: schema, outputSchema: schema }),
  )
  assert.deepEqual(await faultsOf(tools), [])
  const evil = await compile({ name: 'main.ts', text: 'print(evil)' }, checkedDeclarations(tools, []), options)
  assert.deepEqual(
    evil.map(({ number }) => number),
    [2304],
  )
})
