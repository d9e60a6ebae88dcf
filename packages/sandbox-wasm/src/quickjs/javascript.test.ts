import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBench, limits, readable } from '../run.fixture.ts'

const bench = createBench()
const js = (code: string, options = {}) => bench.code('javascript', code, options)
const ts = (code: string, options = {}) => bench.code('typescript', code, options)
const text = (value: string): Uint8Array => new TextEncoder().encode(value)

test('code is the body of an async function, or a module that exports its value, or both', async () => {
  assert.equal((await js('return await Promise.resolve(6 * 7)')).value, 42)
  assert.equal((await js('export default await Promise.resolve(6 * 7)')).value, 42)
  assert.equal((await js('import { existsSync } from "node:fs"\nreturn existsSync("no")')).value, false)
  assert.equal((await js('#!/usr/bin/env node\nreturn 1')).value, 1)
  assert.equal('value' in (await js('1 + 1')).outcome, false)
})

test('types are stripped, and enums are compiled', async () => {
  assert.equal((await ts('enum A { x = 5 }\nconst f = <T,>(a: T): T => a\nreturn f(A.x as number)')).value, 5)
  assert.equal((await ts('import type { X } from "y"\nexport default 3 satisfies number')).value, 3)
})

test('code that does not compile is an outcome with the syntax error of its form', async () => {
  for (const run of [js, ts]) {
    const { exit, stderr } = await run('let x = ;')
    assert.deepEqual(exit, { code: 1 })
    assert.match(stderr, /^SyntaxError: /)
  }
  assert.match((await js('import x from "fs"\nlet = = 1')).stderr, /SyntaxError/)
  assert.match((await js('import x from "net"')).stderr, /Cannot find module 'net'/)
})

test('an uncaught error is printed with its position and its cause', async () => {
  const { exit, stderr } = await js(
    'const f = () => {\n  throw new TypeError("bad", { cause: new Error("deep") })\n}\nf()',
  )
  assert.deepEqual(exit, { code: 1 })
  assert.match(stderr, /^TypeError: bad\n {4}at f \(main\.js:2:\d+\)\n[\s\S]*\[cause\]: Error: deep/)
  assert.doesNotMatch(stderr, /gantry:/)
  assert.match((await js('setTimeout(() => { throw new Error("late") }, 1)')).stderr, /^Error: late/)
  assert.equal((await js('throw { no: "error" }')).stderr, "Uncaught { no: 'error' }\n")
})

test('console prints as Node does, log to stdout and error to stderr', async () => {
  const { stdout, stderr } = await js(`
    console.log('a', 1, { b: [1, 'x', null], c: { d: { e: { f: {} } } } }, new Map([[1, 2]]), new Set(['s']))
    console.log('%s is %d, %j%%', 'it', 5, { a: 1 }, 'rest')
    const loop = { name: 'loop' }; loop.self = loop
    console.info(loop, [undefined, , 2n, -0], /r/g, new Date(0), () => 1, class K {}, Symbol('s'))
    console.error('no'); console.warn(new Error('shown').message)`)
  assert.deepEqual(stdout.split('\n'), [
    "a 1 { b: [ 1, 'x', null ], c: { d: { e: { f: [Object] } } } } Map(1) { 1 => 2 } Set(1) { 's' }",
    'it is 5, {"a":1}% rest',
    "{ name: 'loop', self: [Circular] } [ undefined, undefined, 2n, -0 ] /r/g 1970-01-01T00:00:00.000Z [Function: (anonymous)] [class K] Symbol(s)",
    '',
  ])
  assert.equal(stderr, 'no\nshown\n')
})

test('timers fire in order, and the program ends when none is pending', async () => {
  const { stdout, value } = await js(`
    setTimeout(() => console.log('third'), 20)
    setTimeout((word) => console.log(word), 5, 'second')
    const every = setInterval(() => { console.log('tick'); clearInterval(every) }, 1)
    clearTimeout(setTimeout(() => console.log('never'), 1))
    queueMicrotask(() => console.log('first'))
    return 'value'`)
  assert.deepEqual(stdout.split('\n').slice(0, 4).sort(), ['first', 'second', 'third', 'tick'])
  assert.equal(value, 'value')
})

test('a program that awaits a promise that never settles exits with 13, as in Node', async () => {
  const { exit, stderr } = await js('await new Promise(() => {})')
  assert.deepEqual(exit, { code: 13 })
  assert.match(stderr, /unsettled top-level await/)
})

test('process.exit ends the program at once, also inside a try with a catch', async () => {
  const { exit, stdout, outcome } = await js(
    'try { process.exit(3) } catch {}\nconsole.log("after"); require("fs").writeFileSync("after", "x")',
    { job: { collect: { files: 9, bytes: 99 } } },
  )
  assert.deepEqual([exit, stdout, outcome.files.size], [{ code: 3 }, '', 0])
  assert.deepEqual((await js('process.exitCode = 4')).exit, { code: 4 })
})

test('a program reads files, stdin and environment, and its files are collected', async () => {
  const { stdout, outcome } = await js(
    `import fs, { readFileSync } from 'node:fs'
    import { readFile } from 'node:fs/promises'
    fs.mkdirSync('new/er', { recursive: true })
    fs.writeFileSync('new/er/file.txt', readFileSync('in.txt', 'utf8') + '!')
    fs.appendFileSync('/work/new/er/file.txt', new TextEncoder().encode('?'))
    console.log(await readFile('new/er/file.txt', 'utf8'), fs.readdirSync('.'), fs.statSync('in.txt').size)
    console.log(stdin, fs.readFileSync(0, 'utf8'), process.env.NAME, process.cwd())
    fs.renameSync('in.txt', 'moved.txt')
    fs.rmSync('nothing', { force: true })
    for (const path of ['/etc/passwd', '../x', 'no']) try { fs.readFileSync(path) } catch (error) { console.log(error.code) }`,
    {
      job: {
        files: new Map([['in.txt', text('für')]]),
        stdin: text('input'),
        env: { NAME: 'value' },
        collect: { files: 9, bytes: 999 },
      },
    },
  )
  assert.equal(stdout, "für!? [ 'in.txt', 'new' ] 4\ninput input value /work\nENOENT\nENOENT\nENOENT\n")
  assert.deepEqual([...outcome.files.keys()], ['moved.txt', 'new/er/file.txt'])
})

test('lines on descriptor 3 are messages, and the last value line is the value', async () => {
  const received: unknown[] = []
  const { value } = await js(
    `const { writeSync } = require('fs')
    for (const line of [{ progress: 1, total: 2, message: 'half' }, { log: 'note' }, 'no', { value: 5 }]) writeSync(3, JSON.stringify(line) + '\\n')`,
    { job: { onMessage: (message: unknown) => received.push(message) } },
  )
  assert.deepEqual(received, [
    { kind: 'progress', progress: 1, total: 2, message: 'half' },
    { kind: 'log', message: 'note' },
  ])
  assert.equal(value, 5)
})

test('output is delivered while the program runs', async () => {
  const controller = new AbortController()
  const running = js('console.log("on"); while (true);', {
    signal: controller.signal,
    job: { onOutput: () => controller.abort(new Error('received')) },
  })
  await assert.rejects(running, /received/)
})

test('input files that do not fit into the workspace are refused before the program runs', async () => {
  const files = new Map([['large', new Uint8Array(limits.diskBytes)]])
  await assert.rejects(js('return 1', { job: { files } }), { code: 'INPUT_INVALID', effect: 'none' })
})

test('with a seed and a fixed clock the same code gives the same result, and without them a different one', async () => {
  const code = `return [Math.random(), crypto.randomUUID(), Date.now(), new Date().toISOString(), performance.now(), new Date(0).getHours()]`
  const deterministic = { seed: 5, nowMs: 1_700_000_000_000 }
  const once = await js(code, { spec: { deterministic } })
  const again = await js(code, { spec: { deterministic } })
  assert.deepEqual(once.value, again.value)
  assert.deepEqual((once.value as unknown[]).slice(2), [deterministic.nowMs, '2023-11-14T22:13:20.000Z', 0, 0])
  const other = await js(code, { spec: { deterministic: { ...deterministic, seed: 6 } } })
  assert.notEqual((once.value as unknown[])[0], (other.value as unknown[])[0])
  const [first, second] = [await js('return Math.random()'), await js('return Math.random()')]
  assert.notEqual(first.value, second.value)
})

test('a session keeps variables, functions and files between cells, and the last expression of a cell is its value', async () => {
  const signal = AbortSignal.timeout(30_000)
  const sandbox = await bench.runtime.open({ language: 'typescript', limits, network: 'none', session: true }, signal)
  const cell = async (code: string) =>
    readable(await sandbox.run({ program: { kind: 'code', language: 'typescript', code } }, signal))
  try {
    await cell('let count: number = 1; const add = (n: number) => { count += n; return count }')
    assert.equal((await cell('add(2)')).value, 3)
    assert.equal((await cell('await Promise.resolve(count)')).value, 3)
    assert.equal((await cell('return count * 10')).value, 30)
    const failed = await cell('throw new Error("no")')
    assert.deepEqual(failed.exit, { code: 1 })
    await cell('import fs from "fs"; fs.writeFileSync("kept", "x")')
    assert.deepEqual((await cell('fs.readdirSync(".")')).value, ['kept'])
    assert.deepEqual((await cell('process.exit(4)')).exit, { code: 4 })
    assert.equal((await cell('count')).value, 3)
  } finally {
    await sandbox.dispose()
  }
  await sandbox.ended
})
