import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

test('gantry code', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-code-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, '.git'))
  let input = 'return 7'
  const gantry = async (...words: string[]) => {
    const io = keptIo({ folder, readInput: async () => input })
    const code = await runCommandLine(['code', ...words, '--local'], io)
    return { code, ...io.printed }
  }

  await t.test('prints the returned value on stdout, and the output of the program on stderr', async () => {
    const { code, out, err } = await gantry(
      '-e',
      'print("on the way"); return (await tools.demo.add({ a: 5, b: 3 })).result',
    )
    assert.deepEqual([code, out, err], [0, '8\n', 'on the way\n'])
  })

  await t.test('reads the program from a file, whose extension names the language, or from stdin', async () => {
    writeFileSync(join(folder, 'sum.js'), 'return [1, 2].length')
    writeFileSync(join(folder, 'sum.workflow'), 'sum := run("demo:add", {a: 1, b: 2})\nreturn sum.result')
    const results = [
      await gantry('sum.js', '--json'),
      await gantry('sum.workflow', '--json'),
      await gantry('-', '--json'),
    ]
    const shown = results.map(({ out }) => JSON.parse(out)).map(({ output, program }) => [output, program.language])
    assert.deepEqual(shown, [
      [2, 'javascript'],
      [3, 'workflow'],
      [7, 'typescript'],
    ])
  })

  await t.test(
    'detects the language by the extension .wf, then by the content, and --language takes precedence',
    async () => {
      const languageOf = async (...words: string[]): Promise<unknown> => {
        const { out, err } = await gantry(...words, '--json', '--limits', '{"wallMs":20000}')
        const result = JSON.parse(out || err)
        return result.program?.language ?? result.error?.code
      }
      const steps = 'sum := run("demo:add", {a: 1, b: 2})\nsum.result'
      writeFileSync(join(folder, 'steps.wf'), '"last"')
      writeFileSync(join(folder, 'steps'), steps)
      writeFileSync(join(folder, 'steps.txt'), `# adds\n${steps}`)
      assert.deepEqual(
        [
          await languageOf('steps.wf'),
          await languageOf('steps'),
          await languageOf('steps.txt'),
          await languageOf('-e', steps),
        ],
        ['workflow', 'workflow', 'workflow', 'workflow'],
      )
      const { out } = await gantry('steps')
      assert.equal(out, '3\n')
      const inputs = [
        ['const a: number = 1; return a', 'typescript'],
        ['// x := 1 is no statement\nreturn [{ a: 1 }].length', 'typescript'],
        ['switch (1) {\n  case 1:\n    return 1\n  default:\n}', 'typescript'],
        ['#!/usr/bin/env python3\nreturn 1', 'python'],
        ['import json\nreturn json.dumps([])', 'python'],
        ['for n in [1, 2]:\n    pass\nreturn 3', 'python'],
        ['\n# a comment\nreturn 4', 'python'],
      ] as const
      for (const [text, language] of inputs) {
        input = text
        assert.equal(await languageOf('-'), language, text)
      }
      input = steps
      assert.equal(await languageOf('-', '--language', 'typescript'), 'typescript')
      input = 'return 7'
    },
  )

  await t.test('prints the position of an error, and exits with the code of the failure', async () => {
    const { code, err } = await gantry('-e', 'const a = 1\nreturn a +')
    assert.equal(code, 2)
    assert.match(err, /CODE_INVALID/)
    assert.match(err, /2 \| return a \+/)
    assert.equal((await gantry('-e', 'throw new Error("no")')).code, 1)
  })

  await t.test('names the detected language on stderr when a program without a named language fails', async () => {
    const note = /^detected language: (\w+); --language sets another$/m
    const failing = 'throw new Error("no")'
    writeFileSync(join(folder, 'fails.ts'), failing)
    const taken = await gantry('-e', failing, '--json')
    assert.equal(note.exec(taken.err)?.[1], 'typescript')
    assert.equal(JSON.parse(taken.out).error.code, 'CODE_FAILED')
    assert.equal(note.exec((await gantry('-e', 'a := run(')).err)?.[1], 'workflow')
    for (const words of [['fails.ts'], ['-e', failing, '--language', 'javascript'], ['-e', 'return 1']]) {
      assert.doesNotMatch((await gantry(...words)).err, note)
    }
  })

  await t.test('runs Python with named arguments without a language being named', async () => {
    const { out, err } = await gantry(
      '-e',
      'r = await tools.demo.add(a=1, b=2)\nreturn r',
      '--limits',
      '{"wallMs":20000}',
    )
    assert.match(out, /3/, err)
  })

  await t.test('lists the languages in its help', async () => {
    assert.match((await gantry('--help')).out, /javascript, typescript, python or workflow/)
  })

  await t.test('passes limits on, and refuses a command line without exactly one program', async () => {
    const limited = await gantry(
      '-e',
      'await tools.demo.add({ a: 1, b: 1 }); await tools.demo.add({ a: 1, b: 1 })',
      '--limits',
      '{"toolCalls":1}',
      '--json',
    )
    assert.equal(JSON.parse(limited.out).error.details.limit, 'toolCalls')
    for (const words of [[], ['sum.js', '-e', 'return 1']]) {
      const { code, err } = await gantry(...words)
      assert.deepEqual([code, /as a file, as - for stdin, or as -e CODE/.test(err)], [2, true])
    }
  })
})
