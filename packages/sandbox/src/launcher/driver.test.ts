import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { jobLine, runCode, startCells, startDriver } from './driver.fixture.ts'

/** The same program in each language that has a driver. */
interface Wording {
  readonly language: string
  readonly print: (text: string) => string
  readonly exit: (code: number) => string
  readonly fail: string
  readonly file: string
  readonly notJson: readonly string[]
  readonly readInput: string
  readonly readWorld: string
  readonly say: string
  readonly chance: string
  readonly neighbour: { readonly files: { readonly [path: string]: string }; readonly code: string }
}

const node = {
  print: (text: string) => `console.log(${JSON.stringify(text)})`,
  exit: (code: number) => `process.exit(${code})`,
  fail: '\nthrow new RangeError("far")',
  notJson: [
    'NaN',
    '2 ** 60',
    '"x".repeat(1e6)',
    '10n',
    'new Map()',
    '{ f() {} }',
    '(() => { const a = {}; a.a = a; return a })()',
    '"\\ud800"',
  ],
  readInput: 'return require("node:fs").readFileSync(0, "utf8")',
  readWorld: 'return [process.env, process.argv.slice(2)]',
  say: 'require("node:fs").writeSync(3, \'{"progress":1}\\n{"log":"here"}\\n\'); return 5',
  chance: `return [Math.random(), crypto.randomUUID(), require('node:crypto').randomBytes(4).toString('hex'), Date.now(),
    new Date().toISOString(), Date().slice(0, 15), new Date(0).getTime(), performance.now(), new Date() instanceof Date]`,
}
const wordings: readonly Wording[] = [
  {
    language: 'python',
    print: (text) => `print(${JSON.stringify(text)})`,
    exit: (code) => `import sys\nsys.exit(${code})`,
    fail: '\nraise KeyError("far")',
    file: 'main.py',
    notJson: [
      'float("nan")',
      '{1, 2}',
      '{1: 2}',
      '2**60',
      'b"x"',
      '"x" * 10**6',
      '"\\ud800"',
      '(lambda a: (a.append(a), a)[1])([])',
    ],
    readInput: 'import sys\nreturn sys.stdin.read()',
    readWorld: 'import os, sys\nreturn [dict(os.environ), sys.argv[1:]]',
    say: 'import os\nos.write(3, b\'{"progress":1}\\n{"log":"here"}\\n\')\nreturn 5',
    chance: `import datetime, os, random, secrets, time, uuid
return [random.random(), random.Random().random(), str(uuid.uuid4()), secrets.token_hex(4), os.urandom(2).hex(),
  time.time(), datetime.datetime.now().isoformat(), repr(datetime.date.today()), time.strftime('%Y'), time.perf_counter(),
  isinstance(datetime.datetime(2000, 1, 1), datetime.date), list({'a', 'b', 'c', 'd', 'e'})]`,
    neighbour: { files: { 'helper.py': 'x = 7\n' }, code: 'import helper\nreturn helper.x' },
  },
  {
    language: 'javascript',
    file: 'main.js',
    neighbour: {
      files: { 'helper.mjs': 'export const x = 7\n', 'other.cjs': 'module.exports = 8\n' },
      code: 'return (await import("./helper.mjs")).x + require("./other.cjs") - 8',
    },
    ...node,
  },
  {
    language: 'typescript',
    file: 'main.ts',
    neighbour: {
      files: { 'helper.ts': 'export const x: number = 7\n' },
      code: 'const { x }: { x: number } = await import("./helper.ts"); return x',
    },
    ...node,
  },
]

for (const words of wordings) {
  const { language } = words

  test(`${language}: printed text is the output, and the exit code is 0`, async (t) => {
    const end = await runCode(t, language, words.print('é 42'))
    assert.deepEqual(end, { exit: 0, stdout: 'é 42\n', stderr: '', said: [] })
  })

  test(`${language}: the value is what a top-level return returns, and it is sent once`, async (t) => {
    const { said, exit } = await runCode(t, language, `return {"a": [1, 2.5, "é"], "b": {"c": []}}`)
    assert.deepEqual({ said, exit }, { said: [{ value: { a: [1, 2.5, 'é'], b: { c: [] } } }], exit: 0 })
  })

  test(`${language}: a bare return ends the program without a value`, async (t) => {
    const end = await runCode(t, language, `${words.print('first')}\nreturn\n${words.print('never')}`)
    assert.deepEqual(end, { exit: 0, stdout: 'first\n', stderr: '', said: [] })
  })

  test(`${language}: a return that is not JSON gives no value and a message on stderr`, async (t) => {
    for (const value of words.notJson) {
      const { exit, said, stderr } = await runCode(t, language, `return ${value}`)
      assert.deepEqual({ exit, said }, { exit: 0, said: [] }, value)
      assert.match(stderr, /^gantry: the value is left out because it is not JSON: .+\n$/, value)
    }
  })

  test(`${language}: an uncaught error is printed from the program’s line on, and the exit code is 1`, async (t) => {
    const { exit, stderr, said } = await runCode(t, language, words.fail)
    assert.deepEqual({ exit, said }, { exit: 1, said: [] })
    assert.match(stderr, new RegExp(`${words.file}"?(?:, line |:)2\\b`))
    assert.match(stderr, /far/)
    assert.doesNotMatch(stderr, /native\/drivers|node:internal/)
  })

  test(`${language}: a program sets its exit code`, async (t) => {
    assert.equal((await runCode(t, language, words.exit(3))).exit, 3)
    assert.equal((await runCode(t, language, words.exit(0))).exit, 0)
  })

  test(`${language}: a program gets the stdin, environment and arguments of the job`, async (t) => {
    assert.deepEqual((await runCode(t, language, words.readInput, { stdin: 'a\nb' })).said, [{ value: 'a\nb' }])
    const job = { env: { OWN: 'é', PATH: '/bin' }, argv: ['--x', 'y z'], startEnv: { LEAKED: '1' } }
    assert.deepEqual((await runCode(t, language, words.readWorld, job)).said, [
      { value: [{ OWN: 'é', PATH: '/bin' }, ['--x', 'y z']] },
    ])
  })

  test(`${language}: files beside the program can be imported`, async (t) => {
    const { said, stderr } = await runCode(t, language, words.neighbour.code, { files: words.neighbour.files })
    assert.deepEqual({ said, stderr }, { said: [{ value: 7 }], stderr: '' })
  })

  test(`${language}: a program can write to descriptor 3`, async (t) => {
    const { said } = await runCode(t, language, words.say)
    assert.deepEqual(said, [{ progress: 1 }, { log: 'here' }, { value: 5 }])
  })

  test(`${language}: an interpreter without a job exits silently when its channel closes`, async (t) => {
    const { child, channel, stdout, stderr } = startDriver(t, language)
    channel.end()
    const [code] = await once(child, 'close')
    assert.deepEqual([code, await stdout, await stderr], [0, '', ''])
  })

  test(`${language}: a job that arrives in pieces and a job of a megabyte are read completely`, async (t) => {
    const { child, channel, stdout } = startDriver(t, language)
    const line = Buffer.from(jobLine(`${words.print('ä')}${language === 'python' ? '#' : '//'}${'é'.repeat(500_000)}`))
    channel.write(line.subarray(0, 1))
    await new Promise((resolve) => channel.write(line.subarray(1, 70_001), resolve))
    channel.write(line.subarray(70_001))
    await once(child, 'close')
    assert.equal(await stdout, 'ä\n')
  })

  test(`${language}: with a seed and a fixed time a program gives the same result each time`, async (t) => {
    const still = { deterministic: { seed: 7, nowMs: 1_700_000_000_123 }, startEnv: { PYTHONHASHSEED: '0' } }
    const first = await runCode(t, language, words.chance, still)
    const again = await runCode(t, language, words.chance, still)
    assert.equal(first.stderr, '')
    assert.deepEqual(first.said, again.said)
    assert.match(JSON.stringify(first.said), /2023-11-1[45]T/)
    const free = await runCode(t, language, words.chance)
    assert.notDeepEqual(free.said, first.said)
    const seeded = await runCode(t, language, words.chance, { ...still, deterministic: { seed: 8, nowMs: 0 } })
    assert.notDeepEqual(seeded.said, first.said)
  })

  test(`${language}: a session keeps what cells define, and an error ends only its cell`, async (t) => {
    const { cell, end } = startCells(t, language)
    const define = language === 'python' ? 'x = 20\ndef f():\n  return x' : 'const x = 20; function f() { return x }'
    assert.deepEqual(await cell(define), [{ done: true, code: 0 }])
    assert.deepEqual(await cell('f() + 1'), [{ value: 21 }, { done: true, code: 0 }])
    assert.deepEqual(await cell(words.fail), [{ done: true, code: 1 }])
    assert.deepEqual(await cell('return f() + 2'), [{ value: 22 }, { done: true, code: 0 }])
    assert.deepEqual(await cell(words.print('out')), [{ done: true, code: 0 }])
    const { exit, stdout, stderr } = await end()
    assert.deepEqual([exit, stdout], [0, 'out\n'])
    assert.match(stderr, /cell-3\.(?:py|js|ts)"?(?:, line |:)2\b/)
    assert.match(stderr, /far/)
    assert.doesNotMatch(stderr, /native\/drivers/)
  })
}
