import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '@gantry/contract'
import fc from 'fast-check'
import { translateWorkflow } from './translate.ts'

interface Ran {
  readonly value: unknown
  readonly asked: readonly unknown[]
  readonly printed: readonly unknown[]
}

const AsyncFunction = (async () => undefined).constructor as new (
  ...words: string[]
) => (...values: unknown[]) => Promise<unknown>

/** Runs the JavaScript of a workflow in this process; these tests check what it may contain. */
async function ran(
  source: string,
  answer: (tool: string, args: Json) => unknown = (_, args) => args ?? null,
): Promise<Ran> {
  const asked: unknown[] = []
  const printed: unknown[] = []
  const run = async (tool: string, args: Json): Promise<unknown> => {
    asked.push([tool, args])
    return answer(tool, args)
  }
  const print = (...words: unknown[]): void => void printed.push(...words)
  const none = async (): Promise<null> => null
  const { code } = translateWorkflow(source)
  const names = ['run', 'chain', 'search', 'describe', 'examples', 'print', 'sleep']
  const value = await new AsyncFunction(...names, code)(run, none, none, none, none, print, none)
  return { value, asked, printed }
}

async function value(expression: string): Promise<unknown> {
  return (await ran(`return ${expression}`)).value
}

test('the example workflow makes two calls, the second with the output of the first', async () => {
  const source =
    'issue := run("github:create_issue", {title: "Bug fix"})\nrun("github:add_labels", {issue: issue.number, labels: ["bug"]})\n'
  const { value, asked } = await ran(source, (tool) => (tool === 'github:create_issue' ? { number: 7 } : 'labelled'))
  assert.equal(value, 'labelled')
  assert.deepEqual(asked, [
    ['github:create_issue', { title: 'Bug fix' }],
    ['github:add_labels', { issue: 7, labels: ['bug'] }],
  ])
})

test('a workflow that ends without a return has the value of its last statement', async () => {
  const cases: readonly (readonly [source: string, value: unknown])[] = [
    ['', null],
    ['x := 1', 1],
    ['x := 1\ny := x + 1', 2],
    ['x := {a: 1}\nx.a', 1],
    ['run("a:b", {c: 3})', { c: 3 }],
    ['x := 5\nprint(x)\nsleep(1)', 5],
    ['print("only")', null],
    ['for x in [1, 2, 3] { y := x * 2 }', 6],
    ['x := 1\nif x > 0 { "yes" } else { "no" }', 'yes'],
    ['x := 1\nif x > 1 { return "early" }', 1],
    ['x := 1\nreturn null', null],
    ['x := 1\nreturn', null],
    ['try { x := null.a } catch e { e.code }', 'CODE_FAILED'],
    ['{a: 1}', { a: 1 }],
  ]
  for (const [source, expected] of cases) assert.deepEqual((await ran(source)).value, expected, source)
})

test('conditions, loops, break, continue and comments are translated', async () => {
  const source = `
# sums odd numbers
total := 0   // so far
for i, x in [1, 2, 3, 4, 5, 6, 7] {
  if x % 2 == 0 { continue }
  else if x > 5 or not true {
    break
  }
  else { total := total + x * 10 + i }
}
n := 0
while n < 3 { n := n + 1; print(n) }
return {total: total, n: n}`
  const { value, printed } = await ran(source)
  assert.deepEqual(value, { total: 96, n: 3 })
  assert.deepEqual(printed, [1, 2, 3])
})

test('retry repeats its block until it succeeds or its attempts are used, and never after OUTCOME_UNKNOWN', async () => {
  let calls = 0
  const fail = (code: string, until: number) => () => {
    calls += 1
    if (calls < until) throw Object.assign(new Error('no'), { code })
    return calls
  }
  assert.equal((await ran('retry(3) { return run("a:b") }', fail('BACKEND_FAILED', 3))).value, 3)
  calls = 0
  await assert.rejects(ran('retry(3, 5) { run("a:b") }', fail('BACKEND_FAILED', 9)), { message: 'no' })
  assert.equal(calls, 3)
  calls = 0
  await assert.rejects(ran('retry(3) { run("a:b") }', fail('OUTCOME_UNKNOWN', 9)), { code: 'OUTCOME_UNKNOWN' })
  assert.equal(calls, 1)
  calls = 0
  const inLoop = 'for x in [1, 2] { retry(5) { run("a:b"); break } }\nreturn "left"'
  assert.equal((await ran(inLoop, fail('BACKEND_FAILED', 2))).value, 'left')
  assert.equal(calls, 2)
})

test('catch binds the error with its code, message and retryable', async () => {
  const source = 'try { run("a:b") } catch e { return [e.code, e.message, e.retryable] }'
  const broken = () => {
    throw Object.assign(new Error('gone'), { code: 'RATE_LIMITED', retryable: true })
  }
  assert.deepEqual((await ran(source, broken)).value, ['RATE_LIMITED', 'gone', true])
})

test('operators have the usual precedence, and value functions work', async () => {
  const table: readonly (readonly [string, unknown])[] = [
    ['1 + 2 * 3 - -4', 11],
    ['(1 + 2) * 3', 9],
    ['"a" + 1 + "b"', 'a1b'],
    ['[1] + [2, 3]', [1, 2, 3]],
    ['1 < 2 && "a" <= "a" and !false', true],
    ['null ?? 0 || 5', 5],
    ['2 in [1, 2] ? "yes" : "no"', 'yes'],
    ['"k" in {k: 1}', true],
    ['{a: {"b c": [1, 2]}}.a["b c"][1]', 2],
    ['{a: 1}.b', null],
    ['[1].length + "abc".length', 4],
    ['len(range(3)) + len("ab") + len({a: 1})', 6],
    ['join(append(["a"], 1), "-")', 'a-1'],
    ['[keys({a: 1}), values({a: 1}), number("4"), text([1])]', [['a'], [1], 4, '[1]']],
    ['all(run("a:b", {n: 1}), 2)', [{ n: 1 }, 2]],
    [`'it\\'s "so"' + "\\u00e9\\n\\\\'"`, `it's "so"é\n\\'`],
    ['1.5e3 + .5', 1500.5],
  ]
  for (const [expression, expected] of table) assert.deepEqual(await value(expression), expected, expression)
})

test('a run error on a member of null has the line and column of the workflow', async () => {
  const source = 'x := null\ny := [1,\n  x.number]'
  const { code, original } = translateWorkflow(source)
  const run = new AsyncFunction('run', 'chain', 'search', 'describe', 'examples', 'print', 'sleep', code)
  const error: Error = await run().then(
    () => assert.fail('it did not fail'),
    (thrown) => thrown,
  )
  assert.equal(error.message, 'There is no member "number" of null.')
  // AsyncFunction adds two lines above the code.
  const stack = (error.stack ?? '').replaceAll(/<anonymous>:(\d+):/g, (_, line) => `main.js:${Number(line) - 2}:`)
  const fault = original({ kind: 'run', name: error.name, message: error.message, line: 1, column: 1, stack })
  assert.deepEqual([fault.line, fault.column, fault.stack], [3, 4, undefined])
})

test('errors in a workflow are found before it runs, with line, column and frame', () => {
  const table: readonly (readonly [string, number, number, RegExp])[] = [
    ['x := ', 1, 6, /a value is expected/],
    ['x = 1', 1, 3, /":="/],
    ['a := 1\nreturn b', 2, 8, /no variable "b"/],
    ['isue := 1\nreturn issue', 2, 8, /did you mean "isue"/],
    ['run("a:b"', 1, 10, /"\)" is expected/],
    ['serach("x")', 1, 1, /did you mean "search"/],
    ['run()', 1, 1, /takes 1 to 2 arguments/],
    ['if true {\n  print(1)', 2, 11, /not closed/],
    ['break', 1, 1, /no loop/],
    ['x := "abc', 1, 6, /does not end on its line/],
    ['x := "\\q"', 1, 6, /escape/],
    ['x := 1 y := 2', 1, 8, /statement should end/],
    ['for := 1', 1, 5, /name of a variable/],
    ['x := {1: 2}', 1, 7, /a key is expected/],
    ['x := 1e999', 1, 6, /too large/],
    ['x := `1`', 1, 6, /has no meaning/],
    ['x.y := 1', 1, 1, /Only a variable/],
    ['try { print(1) }', 1, 17, /catch/],
    [`x := ${'['.repeat(200)}`, 1, 70, /nested more than 128/],
    [`${'if true { '.repeat(200)}`, 1, 1274, /nested more than 128/],
    [`x := ${'-'.repeat(9_000)}1`, 1, 133, /nested more than 128/],
    [`return 1${'+1'.repeat(5_000)}`, 1, 8_010, /More than 1000 operators or members/],
    [`x := {}\nreturn x${'["x"]'.repeat(15_000)}`, 2, 70_010, /More than 1000 operators or members/],
  ]
  for (const [source, line, column, message] of table) {
    assert.throws(
      () => translateWorkflow(source),
      (error: { code: string; message: string; details: { line: number; column: number; frame: string } }) => {
        assert.equal(error.code, 'CODE_INVALID', source.slice(0, 40))
        assert.match(error.message, message)
        assert.deepEqual([error.details.line, error.details.column], [line, column], source.slice(0, 40))
        assert.match(error.details.frame, /\^/)
        return true
      },
    )
  }
})

test('names, members and keys of a workflow cannot inject JavaScript', async () => {
  const names = [
    'constructor',
    '__proto__',
    'prototype',
    'process',
    'globalThis',
    'eval',
    'await',
    'this',
    'v$x',
    '$get',
  ]
  for (const name of names) {
    assert.throws(() => translateWorkflow(`return ${name}`), { code: 'CODE_INVALID' }, name)
    assert.throws(() => translateWorkflow(`return ${name}("1")`), { code: 'CODE_INVALID' }, name)
  }
  assert.deepEqual(await value('[{}.constructor, {}.__proto__, [].constructor, "".constructor, {a: 1}.toString]'), [
    null,
    null,
    null,
    null,
    null,
  ])
  const made = (await value('{__proto__: {polluted: true}, "constructor": 1}')) as object
  assert.equal(Object.getPrototypeOf(made), Object.prototype)
  assert.deepEqual(Object.keys(made), ['__proto__', 'constructor'])
  assert.equal((await ran('await := 1\nclass := 2\nreturn await + class')).value, 3)
  for (const source of [
    'x := 1; */ return process',
    'x := `process`',
    'x := /a/',
    'x => 1',
    'new Date()',
    'x := a?.b',
    'x := function() {}',
  ]) {
    assert.throws(() => translateWorkflow(source), { code: 'CODE_INVALID' }, source)
  }
})

const words = [
  'x',
  'y',
  ':=',
  '=',
  'run',
  '(',
  ')',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '.',
  '\n',
  ';',
  'if',
  'else',
  'for',
  'in',
  'while',
  'retry',
  'try',
  'catch',
  'return',
  'break',
  'not',
  '"a"',
  '1',
  '+',
  '-',
  '==',
  '?',
  '??',
  'null',
  '#c',
  'len',
  '$',
  '`',
  '\\',
  '\u2028',
]

test('any text is either refused with a position inside it or translated to JavaScript that compiles', () => {
  const soup = fc.array(fc.constantFrom(...words), { maxLength: 40 }).map((parts) => parts.join(' '))
  fc.assert(
    fc.property(fc.oneof(soup, fc.string({ unit: 'binary', maxLength: 60 })), (source) => {
      try {
        new AsyncFunction(translateWorkflow(source).code)
      } catch (error) {
        const { code, details } = error as { code?: string; details?: { line: number; column: number } }
        assert.equal(code, 'CODE_INVALID', String(error))
        const lines = source.split('\n')
        assert.ok(details !== undefined && details.line >= 1 && details.line <= lines.length)
        assert.ok(details.column >= 1 && details.column <= (lines[details.line - 1] ?? '').length + 1)
      }
    }),
  )
})

test('a workflow with the maximum number of operators and members in a row runs', async () => {
  assert.equal(await value(`1${'+1'.repeat(999)}`), 1_000)
  assert.equal(await value(`[${'{a: 1}.a, '.repeat(5_000)}].length`), 5_000)
})

test('a JSON literal in a workflow keeps its value', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue({ maxDepth: 4 }), async (json) => {
      const plain = JSON.parse(JSON.stringify(json))
      assert.deepEqual(await value(JSON.stringify(json)), plain)
    }),
  )
})
