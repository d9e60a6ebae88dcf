import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runCode, startCells } from './driver.fixture.ts'

const javascript = 'javascript'

test('code with import, export or import.meta is a module in the workspace, and its default export is the value', async (t) => {
  const files = { 'helper.mjs': 'export const x = 7\n', 'data.json': '{"y":8}' }
  const code = `import { x } from './helper.mjs'
import data from './data.json' with { type: 'json' }
await null
export const z = 1
export default [x, data.y, import.meta.filename === process.argv[1], import.meta.dirname === process.cwd(), this === undefined]`
  const { said, stderr } = await runCode(t, javascript, code, { files })
  assert.deepEqual({ said, stderr }, { said: [{ value: [7, 8, true, true, true] }], stderr: '' })
  const meta = await runCode(t, javascript, 'console.log(import.meta.dirname === process.cwd())')
  assert.equal(meta.stdout, 'true\n')
})

test('static imports in code with a return become awaited dynamic imports, in every form', async (t) => {
  const files = { 'helper.mjs': 'export default "d"\nexport const a = 1, b = 2\nglobalThis.seen = true\n' }
  const code = `#!/usr/bin/env node
import './helper.mjs'
import first from './helper.mjs'
import * as all from "./helper.mjs"
import second, { a, b as c } from './helper.mjs'; import third, * as again from './helper.mjs'
import {
  a as many,
} from './helper.mjs'
// import no from './nope.mjs'
const text = \`
import no from './nope.mjs'\`
const inner = "import('x')"
return [seen, first, all.a, second, a, c, third, again.b, many, text, inner, new Error().stack.includes('main.js:13:')]`
  const { said, stderr } = await runCode(t, javascript, code, { files })
  assert.equal(stderr, '')
  const text = "\nimport no from './nope.mjs'"
  assert.deepEqual(said, [{ value: [true, 'd', 1, 'd', 1, 2, 'd', 2, 1, text, "import('x')", true] }])
})

test('a script has the CommonJS globals and runs in sloppy mode', async (t) => {
  const code = `undeclared = 1
return [require.main === module, __filename === process.argv[1], __dirname === process.cwd(), this === module.exports, undeclared]`
  assert.deepEqual((await runCode(t, javascript, code)).said, [{ value: [true, true, true, true, 1] }])
})

test('the value is sent at the return, and the process runs on while the event loop has work', async (t) => {
  const code = 'setTimeout(() => require("node:fs").writeSync(3, \'{"log":"later"}\\n\'), 10)\nreturn "early"'
  assert.deepEqual((await runCode(t, javascript, code)).said, [{ value: 'early' }, { log: 'later' }])
})

test('a promise that never settles ends the process with exit code 13 and a warning', async (t) => {
  const { exit, stderr } = await runCode(t, javascript, 'await new Promise(() => {})')
  assert.equal(exit, 13)
  assert.match(stderr, /never comes/)
  assert.equal(
    (await runCode(t, javascript, 'setTimeout(() => process.exit(0), 5); await new Promise(() => {})')).exit,
    0,
  )
})

test('uncaught errors in promises and timers end the process with exit code 1, after the program’s own listeners', async (t) => {
  const rejected = await runCode(
    t,
    javascript,
    'Promise.reject(new Error("no"))\nawait new Promise((r) => setTimeout(r, 500))',
  )
  assert.equal(rejected.exit, 1)
  assert.equal(rejected.stderr, 'Error: no\n    at Object.<anonymous> (main.js:1:16)\n')
  const timer = await runCode(t, javascript, 'setTimeout(() => { throw new Error("late") }, 1)\nreturn 1')
  assert.deepEqual([timer.exit, timer.said], [1, [{ value: 1 }]])
  const own = await runCode(
    t,
    javascript,
    'process.on("uncaughtException", (e) => console.log("mine", e.message))\nthrow new Error("x")',
  )
  assert.deepEqual([own.exit, own.stdout, own.stderr], [0, 'mine x\n', ''])
  const last = await runCode(
    t,
    javascript,
    'process.on("exit", (code) => console.log("exit", code)); process.exitCode = 4',
  )
  assert.deepEqual([last.exit, last.stdout], [4, 'exit 4\n'])
})

test('errors are printed with causes and properties, and so are thrown values that are no errors', async (t) => {
  const cause = await runCode(t, javascript, 'throw new Error("outer", { cause: new TypeError("inner") })')
  assert.equal(
    cause.stderr,
    'Error: outer\n    at Object.<anonymous> (main.js:1:7) {\n  [cause]: TypeError: inner\n      at Object.<anonymous> (main.js:1:35)\n}\n',
  )
  const missing = await runCode(t, javascript, 'import "./nope.mjs"')
  assert.match(missing.stderr, /^Error \[ERR_MODULE_NOT_FOUND\]: Cannot find module .*nope\.mjs/)
  assert.doesNotMatch(missing.stderr, /\n\s+at /)
  assert.equal((await runCode(t, javascript, 'throw "text"')).stderr, "Uncaught 'text'\n")
  const evil = 'const e = new Error("x"); e[require("node:util").inspect.custom] = () => { throw 1 }; throw e'
  const end = await runCode(t, javascript, evil)
  assert.deepEqual([end.exit, end.stderr], [1, 'Uncaught (an error that cannot be shown)\n'])
})

test('syntax errors name the line, in scripts, in modules and in imported modules', async (t) => {
  const shown = "const a = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n"
  const script = await runCode(t, javascript, 'let b\nconst a = ;')
  assert.deepEqual([script.exit, script.stderr], [1, `main.js:2\n${shown}`])
  const module = await runCode(t, javascript, 'import fs from "node:fs"\n\nconst a = ;\nexport default 1')
  assert.deepEqual([module.exit, module.stderr], [1, `main.js:3\n${shown}`])
  const imported = await runCode(t, javascript, 'import "./bad.mjs"', { files: { 'bad.mjs': '\nconst a = ;\n' } })
  assert.ok(imported.stderr.endsWith(`/bad.mjs:2\n${shown}`), imported.stderr)
})

test('output is complete when the program exits before a slow reader has read it', async (t) => {
  const { stdout } = await runCode(t, javascript, 'process.stdout.write("x".repeat(1_000_000)); process.exit(0)')
  assert.equal(stdout.length, 1_000_000)
})

test('TypeScript keeps its line numbers, also when enums and parameter properties are translated', async (t) => {
  const stripped = await runCode(t, 'typescript', 'interface A {\n  b: string\n}\n\nthrow new Error("here" as string)')
  assert.match(stripped.stderr, /^Error: here\n {4}at .*main\.ts:5:7\)?\n$/)
  const translated =
    'enum E { A = 1, B }\nclass C { constructor(private x: number) {} }\n\n\nfunction f(): never {\n  throw new Error("here")\n}\nf()'
  const end = await runCode(t, 'typescript', translated)
  assert.match(end.stderr, /at f \(main\.ts:6:9\)\n {4}at .*main\.ts:8:1\)\n$/)
  const module = await runCode(t, 'typescript', 'import fs from "node:fs"\nenum E { A }\n\nexport default null!.x')
  assert.match(module.stderr, /at main\.ts:4:\d+\n$/)
  const wrong = await runCode(t, 'typescript', 'const ok = 1\nconst x: = 5')
  assert.match(wrong.stderr, /^main\.ts:2\nconst x: = 5\n {9}\^\n\nSyntaxError: .*\n$/)
})

test('TypeScript drops type imports, and allows a return in code with imports', async (t) => {
  const code = `import { existsSync, type Stats } from 'node:fs'
import type { Nothing } from './nope.ts'
const kept: Stats | Nothing | undefined = undefined
return [existsSync('/'), kept === undefined] satisfies unknown[]`
  assert.deepEqual((await runCode(t, 'typescript', code)).said, [{ value: [true, true] }])
  const module =
    'import { existsSync } from "node:fs"\nenum E { A = 3 }\nexport default [existsSync("/"), E.A] as const'
  const { said, stderr } = await runCode(t, 'typescript', module)
  assert.deepEqual({ said, stderr }, { said: [{ value: [true, 3] }], stderr: '' })
})

test('cells redeclare names, await, import, and their last expression is the value', async (t) => {
  const { cell, end } = startCells(t, javascript, { files: { 'helper.mjs': 'export const x = 5\n' } })
  const value = async (code: string) => (await cell(code)).find((line) => 'value' in line)?.value
  assert.equal(await value('const a = 1; let b = 2; class K { c = 3 }; function f() { return a + b }'), undefined)
  assert.equal(await value('const a = await Promise.resolve(10); class K { c = 4 }; f() + new K().c'), 16)
  assert.equal(
    await value('import fs, { existsSync } from "node:fs"\nexistsSync("/") && typeof fs.statSync'),
    'function',
  )
  assert.equal(await value('(await import("./helper.mjs")).x'), 5)
  assert.equal(await value('Promise.resolve("waited for")'), 'waited for')
  assert.equal(await value('const only = 1; return only + a'), 11)
  assert.equal(await value('typeof only + require("node:path").sep'), 'undefined/')
  assert.equal(await value('setTimeout(() => { globalThis.late = 1; throw new Error("late") }, 1); 0'), 0)
  assert.equal(await value('await new Promise((r) => setTimeout(r, 20)); late'), 1)
  assert.equal(await value('new Map([[1, 2]])'), undefined)
  assert.equal(await value('`import("x")`'), 'import("x")')
  assert.deepEqual(await cell('eval("return 5")'), [{ done: true, code: 1 }])
  assert.deepEqual(await cell('\nconst z = ;'), [{ done: true, code: 1 }])
  const { exit, stdout, stderr } = await end()
  assert.deepEqual([exit, stdout], [0, 'Map(1) { 1 => 2 }\n'])
  assert.match(stderr, /Error: late\n.*cell-8\.js:1:/)
  assert.match(stderr, /cell-13\.js:2\nconst z = ;\n/)
})

test('a TypeScript cell may contain syntax that needs translation', async (t) => {
  const { cell, end } = startCells(t, 'typescript')
  assert.deepEqual((await cell('enum E { A = 3 }\nconst n: number = E.A\nn')).at(0), { value: 3 })
  assert.deepEqual((await cell('return (n as number) + E.A')).at(0), { value: 6 })
  assert.deepEqual((await cell('enum F { A }\n\n\nnull!.x')).at(0), { done: true, code: 1 })
  assert.match((await end()).stderr, /cell-3\.ts:4:/)
})
