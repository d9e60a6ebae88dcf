import assert from 'node:assert/strict'
import { test } from 'node:test'
import { languageIn } from './program-language.ts'

const programs: { readonly [language: string]: readonly string[] } = {
  python: [
    'r = await tools.math.add(a=1, b=2)\nreturn r',
    'return await tools.math.add(a=1, b=2)',
    'return await tools.demo.echo("x", times=2)',
    'return None',
    'return True',
    'x = False\nreturn x',
    'return [n * n for n in range(3)]',
    'return {k: v for k, v in pairs}',
    'return sum(n for n in [1, 2])',
    'f = lambda x: x + 1\nreturn f(1)',
    'return sorted([2, 1], key=lambda n: -n)',
    'f = lambda: 5\nreturn f()',
    'x: int = 5\nreturn x',
    'names: list[str] = []\nreturn names',
    '"""Adds two numbers.\nx := 5 is no statement; const a = 1\n"""\nreturn 1',
    "'''Adds.'''\nreturn 1",
    'x = 5\nreturn x',
    'return f"{1 + 1}"',
    'return [1, 2, 3][1:]',
    'n = 7 // 2\nreturn n',
    'return 1 if len("ab") > 1 else 2',
    'if 1 > 0: return 1\nreturn 2',
    'def f(a, *, b=1):\n    return {"a": a}\nreturn f(1)',
    'def f(a) -> int:\n  return a\nreturn f(1)',
    'rows = await tools.db.query(\n    sql="select 1",\n)\nreturn rows',
    'return 4 # the const answer => here',
    '#!/usr/bin/env python3\nreturn 1',
    '# x := 5\nreturn 1',
    'import json\nreturn json.dumps([])',
    'from json import dumps\nreturn dumps({"a": 1})',
    'for n in [1, 2]:\n    pass\nreturn 3',
    'if x in {1, 2}:\n    return 1',
    'try:\n    await tools.demo.fail({"message": "no"})\nexcept Exception as e:\n    return str(e)',
    'if (n := 5) > 3:\n    return n',
  ],
  typescript: [
    '',
    'return 7',
    'return (await tools.demo.add({ a: 5, b: 3 })).result',
    'print("on the way"); return 1',
    'const a: number = 1; return a',
    'const a = 1\nreturn a +',
    '/* how it goes:\nx := 5\n  y := 6 */\nreturn 1',
    '// x := 1 is no statement\nreturn [{ a: 1 }].length',
    '// return None, [n for n in x], f(a=1)\nreturn 1',
    'return "None, [n for n in x], f(a=1), # not python"',
    'return `x := 5\n# no comment\ny := 6`',
    'const f = (a = 1) => a\nreturn f()',
    'function f(a = 1, b = 2) {\n  return a + b\n}\nreturn f()',
    'const o = { add(a = 1) { return a } }\nreturn o.add()',
    'class A {\n  #count = 0\n  x: number = 5\n  get() { return this.#count }\n}\nreturn new A().get()',
    'enum Kind { None, Some }\nreturn Kind.None',
    'const kinds = { None: 0, lambda: 5 }\nreturn kinds.None',
    'switch (1) {\n  case 1:\n    return 1\n  default:\n}',
    'for (const n of [1, 2]) {\n  print(n)\n}',
    'for await (const n of rows()) print(n)',
    'import { a } from "b"\nreturn a',
    'import a from "b"\nreturn a',
    'outer: for (const a of [1]) {\n  continue outer\n}',
    'return await tools.demo.add({\n  a: 1,\n  b: 2,\n})',
    'let x = 5\nx = 6\nreturn x',
    'return a ? b : c',
    'throw new Error("no")',
    '#!/usr/bin/env node\nreturn 1',
  ],
  workflow: [
    'sum := run("demo:add", {a: 1, b: 2})\nsum.result',
    '# adds\nsum := run("demo:add", {a: 1, b: 2})',
    '// adds\nsum := run("demo:add", {a: 1, b: 2})',
    'for n in [1, 2] {\n  sum := run("demo:add", {a: n, b: 2})\n}',
    'a:=1\nif a == 1 { return "None" }',
  ],
}

for (const [language, texts] of Object.entries(programs)) {
  test(`a program in ${language} is detected as ${language} by its content`, () => {
    const wrong = texts.filter((text) => (languageIn(text) ?? 'typescript') !== language)
    assert.deepEqual(wrong, [])
  })
}

test('the language of a program is detected from its beginning, whatever its length', () => {
  assert.equal(languageIn(`return None\n${'x'.repeat(1_000_000)}`), 'python')
})
