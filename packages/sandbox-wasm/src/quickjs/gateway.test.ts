import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Outcome, ProgramGateway, ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import { createWasmRuntime } from '../wasm.ts'

const runtime = createWasmRuntime({ threads: 1 })
after(() => runtime.close())

const limits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 67_108_864,
  pids: 1,
  diskBytes: 65_536,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const calm = new AbortController().signal

async function run(code: string, ask: ProgramGateway['ask'], signal = calm, language = 'javascript'): Promise<Outcome> {
  const sandbox = await runtime.open({ language, limits, network: 'none', gateway: true }, calm)
  try {
    return await sandbox.run({ program: { kind: 'code', language, code }, gateway: { ask } }, signal)
  } finally {
    await sandbox.dispose()
  }
}

const echo: ProgramGateway['ask'] = (questions, answer) => {
  for (const { number, text } of questions) answer({ number, ok: true, text })
}

test('gateway requests are numbered and arrive as one batch per quiescence, and each response reaches its request', async () => {
  const rests: ProgramRequest[][] = []
  const { value } = await run(
    `const one = await tools.a.b({ x: 1 })
     const all = await Promise.all([run('c:d'), sleep(5), search('w', { limit: 2 }), describe('e:f'), examples('g:h'), artifacts.get('i')])
     return [one, ...all]`,
    (questions, answer) => {
      rests.push([...questions])
      for (const { number, text } of questions.toReversed()) answer({ number, ok: true, text })
    },
  )
  assert.deepEqual(
    rests.map((rest) => rest.map(({ number, kind }) => `${number} ${kind}`)),
    [['1 call'], ['2 call', '3 sleep', '4 search', '5 describe', '6 examples', '7 artifact']],
  )
  assert.deepEqual(value, [
    { tool: 'a:b', args: { x: 1 } },
    { tool: 'c:d', args: {} },
    null,
    { words: 'w', limit: 2 },
    { tool: 'e:f' },
    { tool: 'g:h' },
    { get: 'i' },
  ])
})

test('a program without tools has no tool globals in a thread that was prepared for tools', async () => {
  const names = `['tools', 'run', 'ToolError', 'sleep', 'artifacts'].filter((name) => name in globalThis)`
  const withTools = await run(`return ${names}`, echo)
  assert.deepEqual(withTools.value, ['tools', 'run', 'ToolError', 'sleep', 'artifacts'])
  for (let turn = 0; turn < 3; turn += 1) {
    const sandbox = await runtime.open({ language: 'javascript', limits, network: 'none' }, calm)
    const code = `setTimeout(() => console.log('later'), 1); return ${names}`
    const plain = await sandbox.run({ program: { kind: 'code', language: 'javascript', code } }, calm)
    await sandbox.dispose()
    assert.deepEqual([plain.value, new TextDecoder().decode(plain.stdout.bytes)], [[], 'later\n'])
    assert.deepEqual((await run('return await tools.a.b(1)', echo)).value, { tool: 'a:b', args: 1 })
  }
})

test('a program reads one response at a time, in order, and is quiescent in between', async () => {
  const { value } = await run(
    `const order = []
     const follow = async (n) => { await run('a:' + n); order.push(n); await null; order.push(n) }
     await Promise.all([follow(1), follow(2), follow(3)])
     return order`,
    (questions, answer) => {
      for (const { number } of questions.toReversed()) answer({ number, ok: true, text: 'null' })
    },
  )
  assert.deepEqual(value, [3, 3, 2, 2, 1, 1])
})

test('every quiescence is reported, also one without a request', async () => {
  const rests: number[][] = []
  const answers: (() => void)[] = []
  const { value } = await run('await Promise.all([run("a:a"), run("b:b")]); return 1', (questions, answer) => {
    rests.push(questions.map(({ number }) => number))
    for (const { number } of questions) answers.push(() => answer({ number, ok: true, text: '1' }))
    answers.shift()?.()
  })
  assert.deepEqual([value, rests], [1, [[1, 2], []]])
})

test('a program ends at its return or throw, although another response has already arrived', async () => {
  for (const [code, value] of [
    ['void search("x").then(() => run("after:end")); await run("a:b"); return 1', 1],
    ['void search("x").then(() => run("after:end")); await run("a:b"); throw new Error("enough")', undefined],
  ] as const) {
    const asked: string[] = []
    const outcome = await run(code, (questions, answer) => {
      asked.push(...questions.map(({ kind }) => kind))
      for (const { number } of questions.toReversed()) answer({ number, ok: true, text: 'null' })
    })
    assert.deepEqual([outcome.value, asked], [value, ['search', 'call']])
  }
})

test('a request after a response is not over budget because another response had already arrived', async () => {
  const { value, fault } = await run(
    `const many = async (id) => { await run(id); await Promise.all(Array.from({ length: 11_000 }, () => sleep(1))) }
     await Promise.all([many('a:a'), many('b:b')])
     return 1`,
    echo,
  )
  assert.deepEqual([value, fault], [1, undefined])
})

test('sleeping for an invalid duration throws in the program, and setTimeout treats it as 0', async () => {
  const asked: string[] = []
  const { value } = await run(
    `const wrong = []
     for (const ms of [NaN, Infinity, -Infinity, -1, '5', null, undefined, 5n, {}]) {
       try { await sleep(ms) } catch (error) { wrong.push(error.name + ': ' + error.message) }
     }
     await sleep(0)
     await sleep(1.5)
     await sleep(1e300)
     for (const ms of [NaN, -1, undefined, '7']) await new Promise((resolve) => setTimeout(resolve, ms))
     return wrong`,
    (questions, answer) => {
      asked.push(...questions.map(({ text }) => text))
      for (const { number } of questions) answer({ number, ok: true, text: 'null' })
    },
  )
  const message = 'TypeError: sleep takes a number of milliseconds that is finite and not below 0'
  assert.deepEqual(value, Array(9).fill(message))
  assert.deepEqual(
    asked,
    [0, 1.5, Number.MAX_SAFE_INTEGER, 0, 0, 0, 7].map((ms) => `{"ms":${ms}}`),
  )
})

test('92: a response without a request, or a second one, fails the run and not the runtime', async () => {
  for (const number of [2, 0, -1, 1.5]) {
    const wrong = run('return await run("a:b")', (_, answer) => answer({ number, ok: true, text: '1' }))
    const { exit, value } = await wrong
    assert.deepEqual([exit, value], [{ code: 1 }, undefined], String(number))
  }
  assert.deepEqual((await run('return await run("a:b")', echo)).value, { tool: 'a:b', args: {} })
})

test('92: a response of an ended run does not reach the next one', async () => {
  const late: ((answer: ProgramResponse) => void)[] = []
  await run('void sleep(1000); return 1', (_, answer) => late.push(answer))
  await run('void sleep(1000); await run("a:b"); return 1', (questions, answer) => {
    late.push(answer)
    for (const { number, kind } of questions) if (kind === 'call') answer({ number, ok: true, text: '1' })
  })
  const { value } = await run('return await run("a:b")', (questions, answer) => {
    for (const old of late) old({ number: 1, ok: true, text: '"forged"' })
    echo(questions, answer)
  })
  assert.deepEqual(value, { tool: 'a:b', args: {} })
})

test('many concurrent responses and long ones arrive complete and in order', async () => {
  const long = 'é"\n'.repeat(50_000)
  const { value } = await run(
    `const got = []
     await Promise.all(Array.from({ length: 500 }, async (_, i) => { got.push((await run('a:b', { i, text: i % 100 ? '' : 'é"\\n'.repeat(50_000) })).args) }))
     return [got.map(({ i }) => i), got[100].text]`,
    (questions, answer) => {
      for (const { number, text } of questions) answer({ number, ok: true, text })
    },
  )
  assert.deepEqual(value, [Array.from({ length: 500 }, (_, i) => i), long])
})

test('cancelling ends a quiescent and a computing program, and the next program runs', async () => {
  for (const code of ['await run("a:b")', 'run("a:b"); for (;;);']) {
    const controller = new AbortController()
    const reason = new ToolError('CANCELLED', 'enough')
    const running = run(code, () => controller.abort(reason), controller.signal)
    setTimeout(() => controller.abort(reason), 200)
    await assert.rejects(running, reason)
    assert.equal((await run('return 1', echo)).value, 1)
  }
})

test('an error has its position in the source that the author wrote', async () => {
  const places: readonly (readonly [language: string, code: string, name: string, line: number, column: number])[] = [
    ['javascript', 'const a = 1\nlet x = ;', 'SyntaxError', 2, 9],
    ['typescript', 'const a: number = 1\nlet x: = 1', 'SyntaxError', 2, 8],
    ['javascript', 'let x = ;', 'SyntaxError', 1, 9],
    ['javascript', 'if (true) {\n  run("a:b")', 'SyntaxError', 2, 13],
    ['javascript', 'throw new TypeError("one")', 'TypeError', 1, 7],
    ['javascript', 'const a = {}\nprint(a)\nconst c = a.foo.bar', 'TypeError', 3, 17],
    ['javascript', 'const a = {}\nprint(a)\n// undef\nprint("undef", undef)', 'ReferenceError', 4, 16],
    ['javascript', 'const a = [1, null]\nprint(a)\nreturn a.map((x) =>\n  x.y)', 'TypeError', 4, 5],
    ['javascript', 'const { a } = JSON.parse("null")', 'TypeError', 1, 7],
    ['javascript', 'for (const x of run.items)\n  print(x)', 'TypeError', 1, 17],
    ['javascript', 'const f = async () => {\n  await run("a:b")\n  missing()\n}\nawait f()', 'ReferenceError', 3, 3],
    [
      'typescript',
      'type A = { b: string }\nconst a: A | undefined = undefined as A | undefined\nprint(a!.b)',
      'TypeError',
      3,
      10,
    ],
    [
      'typescript',
      'enum Color { Red, Green }\n\nconst f = (c: Color) => {\n  throw new RangeError(String(c))\n}\nf(Color.Green)',
      'RangeError',
      4,
      9,
    ],
    [
      'typescript',
      'setTimeout(() => {\n  throw new Error("late")\n}, 1)\nawait sleep(1)\nawait new Promise(() => {})',
      'Error',
      2,
      9,
    ],
  ]
  for (const [language, code, name, line, column] of places) {
    const { fault } = await run(code, echo, calm, language)
    assert.deepEqual(
      [fault?.name, fault?.line, fault?.column],
      [name, line, column],
      `${code}\n${JSON.stringify(fault)}`,
    )
    assert.equal(fault?.kind, name === 'SyntaxError' ? 'compile' : 'run')
  }
})

test('an uncaught tool error has the line of its call', async () => {
  const error = { code: 'DENIED', message: 'no', retryable: false }
  const { fault } = await run('const a = 1\n  await tools.a.b({\n    x: 1,\n  })', (questions, answer) => {
    for (const { number } of questions) answer({ number, ok: false, text: JSON.stringify(error) })
  })
  assert.deepEqual([fault?.name, fault?.message, fault?.line, fault?.error], ['ToolError', 'no', 2, error])
})

test('the stack of a tool error has the program’s lines, innermost first, and the program’s stackTraceLimit is kept', async () => {
  const error = { code: 'DENIED', message: 'no', retryable: false }
  const code = `Error.stackTraceLimit = 7
    const inner = (ask) => ask()
    const asks = [() => tools.a.b(), () => run('a:b'), () => search('x')]
    const stacks = []
    for (const ask of asks) await inner(ask).catch(({ stack }) => stacks.push(stack))
    return [Error.stackTraceLimit, ...stacks]`
  const { value } = await run(code, (questions, answer) => {
    for (const { number } of questions) answer({ number, ok: false, text: JSON.stringify(error) })
  })
  const [limit, ...stacks] = value as (number | string)[]
  const lines = stacks.map((stack) => [...String(stack).matchAll(/main\.js:(\d+)/g)].map(([, line]) => Number(line)))
  assert.deepEqual([limit, lines], [7, [[3, 2], [3, 2], [3]]])
})

test('tools keep their identity and cannot be replaced or deleted', async () => {
  const { value } = await run(
    `Object.prototype.get = () => 'bent'
     const { b } = tools.a
     for (const change of [() => { tools.a = 1 }, () => { tools.a.b = 1 }, () => { tools.c = 1 }, () => { delete tools.a }]) {
       try { change() } catch (error) { if (!(error instanceof TypeError)) throw error }
     }
     const same = [tools.a === tools.a, tools.a.b === b, tools.c === tools.c]
     return [same, Object.keys(tools), [tools.then, tools[Symbol.iterator]].map(String), await tools.a.b({ x: 1 }), await tools.c.d()]`,
    echo,
  )
  const texts = [
    { tool: 'a:b', args: { x: 1 } },
    { tool: 'c:d', args: {} },
  ]
  assert.deepEqual(value, [[true, true, true], [], ['undefined', 'undefined'], ...texts])
})

test('arguments are serialized as JSON.stringify does, so a replay matches the journal', async () => {
  const values = [
    ...[{}, { a: 1 }, { a: -0, b: 1e21, c: 0.1, d: -5 }, { t: true, f: false }, { s: 'é " \\ \n \u2028 🚀', '': '' }],
    ...[{ 'a"b': 1, a: 'x' }, { a: null, b: [1, { c: 'd' }] }, { 2: 'two', 1: 'one', x: 0 }, [1, 'a'], 'text', 5, null],
  ]
  const texts: string[] = []
  const code = `for (const value of ${JSON.stringify(values)}) await tools.a.b(value)
    await tools.a.b({ a: 1, b: NaN })`
  const { fault } = await run(code, (questions, answer) => {
    for (const { number, text } of questions) {
      texts.push(text)
      answer({ number, ok: true, text: 'null' })
    }
  })
  const written = values.map((value) => `{"tool":"a:b","args":${JSON.stringify(value)}}`)
  assert.deepEqual([texts, fault?.message], [written, 'NaN is not a JSON number'])
})

test('code that overflows the TypeScript parser does not affect the next program', async () => {
  const deep = '['.repeat(3_000)
  for (const language of ['javascript', 'typescript']) {
    const { fault } = await run(`const a = ${deep}; return 1`, echo, calm, language)
    assert.equal(fault?.kind, 'compile', language)
    assert.equal((await run('const one: number = 1\nreturn one', echo, calm, 'typescript')).value, 1, language)
  }
})
