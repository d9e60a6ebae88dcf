import assert from 'node:assert/strict'
import { ToolError } from '@gantry/contract'
import { attackLimits } from './attacks/attack.ts'
import { assertExit, type RuntimeAbility, type RuntimeCase, textOf } from './runtime-case.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const code = (language: string, text: string) => ({ program: { kind: 'code', language, code: text } }) as const
const script = (text: string) => ({ program: { kind: 'script', script: text } }) as const

/** The same small program in each language, and what it needs. */
const greetings: readonly (readonly [RuntimeAbility, string])[] = [
  ['python', 'print(6*7)'],
  ['javascript', 'console.log(6*7)'],
  ['typescript', 'const n: number = 6 * 7; console.log(n)'],
  ['bash', 'echo $((6*7))'],
  ['c', '#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); return 0; }'],
]

const inEachLanguage: readonly RuntimeCase[] = greetings.map(([language, text]) => ({
  title: `${language} prints 42 and ends with 0`,
  needs: [language],
  async check({ run }) {
    const outcome = await run(code(language, text))
    assertExit(outcome, 0)
    assert.equal(textOf(outcome.stdout.bytes), '42\n')
    assert.equal(outcome.stdout.truncated, false)
    assert.equal(outcome.stderr.bytes.length, 0)
  },
}))

const values: readonly (readonly [RuntimeAbility, string])[] = [
  ['python', 'import asyncio\nawait asyncio.sleep(0)\nreturn {"list": [1, 2.5, None], "text": "ü"}'],
  ['javascript', 'await Promise.resolve(); return { list: [1, 2.5, null], text: "ü" }'],
  ['typescript', 'const text: string = "ü"; await Promise.resolve(); return { list: [1, 2.5, null], text }'],
]

const valueOfEach: readonly RuntimeCase[] = values.map(([language, text]) => ({
  title: `${language} awaits at the top level, and its return value is the value of the run`,
  needs: [language],
  async check({ run }) {
    const outcome = await run(code(language, text))
    assertExit(outcome, 0)
    assert.deepEqual(outcome.value, { list: [1, 2.5, null], text: 'ü' })
  },
}))

const failures: readonly (readonly [RuntimeAbility, string, number, RegExp])[] = [
  ['python', 'raise ValueError("it broke")', 1, /ValueError: it broke/],
  ['python', 'import sys\nsys.exit(7)', 7, /^$/],
  ['python', 'def (:', 1, /SyntaxError/],
  ['javascript', 'throw new Error("it broke")', 1, /it broke/],
  ['javascript', 'process.exit(7)', 7, /^$/],
  ['javascript', 'let let = 1 +', 1, /SyntaxError/],
  ['typescript', 'throw new Error("it broke")', 1, /it broke/],
  ['bash', 'echo it broke >&2; exit 7', 7, /it broke/],
  ['c', 'int main(void) { return 7; }', 7, /^$/],
  ['c', 'int main(void) { return }', 1, /error: expected expression/],
]

const faultOfEach: readonly RuntimeCase[] = failures.map(([language, text, exit, said]) => ({
  title: `${language} that fails ends with its exit code: ${JSON.stringify(text)}`,
  needs: [language],
  async check({ run }) {
    const outcome = await run(code(language, text))
    assertExit(outcome, exit)
    assert.match(textOf(outcome.stderr.bytes), said)
  },
}))

const chatty: readonly (readonly [RuntimeAbility, string])[] = [
  [
    'python',
    `import os
line = b'{"progress": 1, "message": "%s"}\\n' % (b'x' * 68)
for _ in range(1000): os.write(3, line * 25)
return "v" * 900000`,
  ],
  [
    'javascript',
    `const { writeSync } = await import('node:fs')
const lines = \`{"progress":1,"message":"\${'x'.repeat(71)}"}\\n\`.repeat(25)
for (let count = 0; count < 1000; count++) writeSync(3, lines)
return 'v'.repeat(900000)`,
  ],
]

const single: readonly RuntimeCase[] = [
  {
    title: 'stdout and stderr are kept apart and stream while the program runs',
    needs: ['python'],
    async check({ run }) {
      const pieces: string[] = []
      const outcome = await run({
        ...code('python', 'import sys\nprint("out")\nprint("err", file=sys.stderr)'),
        onOutput: (stream, bytes) => void pieces.push(`${stream}:${textOf(bytes)}`),
      })
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'out\n')
      assert.equal(textOf(outcome.stderr.bytes), 'err\n')
      assert.deepEqual(pieces.sort(), ['stderr:err\n', 'stdout:out\n'])
    },
  },
  {
    title: 'stdin reaches the program, then ends',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run({
        ...code('python', 'import sys\nprint(len(sys.stdin.read()))'),
        stdin: bytesOf('x'.repeat(200_000)),
      })
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), '200000\n')
    },
  },
  {
    title: 'a program that does not read its stdin ends normally',
    needs: ['python'],
    async check({ run }) {
      assertExit(await run({ ...code('python', 'pass'), stdin: new Uint8Array(5_000_000) }), 0)
    },
  },
  {
    title: 'input files reach the program, and files that it creates are returned byte for byte',
    needs: ['python'],
    async check({ run }) {
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
      const outcome = await run({
        ...code('python', 'data = open("in/all.bin","rb").read()\nopen("out.bin","wb").write(data[::-1])'),
        files: new Map([['in/all.bin', bytes]]),
        collect: { files: 10, bytes: 1_000_000 },
      })
      assertExit(outcome, 0)
      assert.deepEqual([...(outcome.files.get('out.bin') ?? [])], [...bytes].reverse())
    },
  },
  {
    title: 'a compiled program reads its stdin, and of its files only those that it made itself are returned',
    needs: ['c'],
    async check({ run }) {
      const text = `#include <stdio.h>
int main(void) {
  int number = 0;
  if (scanf("%d", &number) != 1) return 9;
  FILE *file = fopen("out.txt", "w");
  fprintf(file, "%d", number * 2);
  return fclose(file);
}`
      const outcome = await run({
        ...code('c', text),
        stdin: bytesOf('21'),
        collect: { files: 10, bytes: 1_000_000 },
      })
      assertExit(outcome, 0)
      assert.deepEqual(
        [...outcome.files].map(([path, bytes]) => [path, textOf(bytes)]),
        [['out.txt', '42']],
      )
    },
  },
  {
    title: 'only requested files are returned',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run(code('python', 'open("out.txt","w").write("x")'))
      assertExit(outcome, 0)
      assert.equal(outcome.files.size, 0)
    },
  },
  {
    title: 'files over the limit are not returned, with the reason',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run({
        ...code('python', 'for n in range(20): open(f"f{n:02}","w").write("x"*100)'),
        collect: { files: 5, bytes: 1_000_000 },
      })
      assertExit(outcome, 0)
      assert.ok(outcome.files.size <= 5)
      assert.ok(outcome.skipped.length > 0)
    },
  },
  {
    title: 'the environment holds the given variables and none of the host',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run({
        ...code('python', 'import os, json\nreturn dict(os.environ)'),
        env: { GREETING: 'hello' },
      })
      assertExit(outcome, 0)
      const seen = outcome.value as { readonly [name: string]: string }
      assert.equal(seen.GREETING, 'hello')
      const usual = ['GREETING', 'PATH', 'HOME', 'TMPDIR', 'LANG', 'PWD', 'SHLVL', '_', 'LC_CTYPE', 'PYTHONHASHSEED']
      assert.deepEqual(
        Object.keys(seen).filter((name) => !usual.includes(name) && !name.startsWith('GANTRY_')),
        [],
      )
    },
  },
  {
    title: 'output over its limit is truncated, marked and counted, and the program continues',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run(code('python', 'print("x"*100000, end="")\nreturn "after"'), { stdoutBytes: 1_000 })
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'x'.repeat(1_000))
      assert.deepEqual([outcome.stdout.truncated, outcome.stdout.total, outcome.value], [true, 100_000, 'after'])
    },
  },
  {
    title: 'a line on stdout that looks like a result is only output',
    needs: ['python'],
    async check({ run }) {
      const outcome = await run(code('python', `print('{"value": "forged"}')\nprint('__OUT__:1')`))
      assertExit(outcome, 0)
      assert.equal(outcome.value, undefined)
    },
  },
  {
    title: 'arguments of a command reach it unchanged, without a shell',
    needs: ['shell'],
    async check({ run }) {
      const argv = ['printf', '%s|', '$(id)', '; echo x', '--', '-n', '*', 'a b'] as const
      const outcome = await run({ program: { kind: 'argv', argv } })
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), '$(id)|; echo x|--|-n|*|a b|')
    },
  },
  {
    title: 'a missing command exits with 127 and a message',
    needs: ['shell'],
    async check({ run }) {
      const outcome = await run({ program: { kind: 'argv', argv: ['no-such-program-here'] } })
      assertExit(outcome, 127)
      assert.match(textOf(outcome.stderr.bytes), /no-such-program-here/)
    },
  },
  {
    title: 'the outcome names the signal that ended the program',
    needs: ['shell'],
    async check({ run }) {
      const { exit, hit } = await run(script('kill -SEGV $$'))
      assert.deepEqual({ exit, hit }, { exit: { signal: 'SIGSEGV' }, hit: undefined })
    },
  },
  {
    title: 'progress and logs on descriptor 3 stream while the program runs, and its value is the value of the run',
    needs: ['shell'],
    async check({ run }) {
      const received: unknown[] = []
      const lines = ['{"progress":1,"total":2,"message":"half"}', '{"log":"note"}', 'no json', '{"value":[1]}']
      const outcome = await run({
        ...script(lines.map((line) => `echo '${line}' >&3`).join('\n')),
        onMessage: (message) => void received.push(message),
      })
      assertExit(outcome, 0)
      assert.deepEqual(outcome.value, [1])
      assert.deepEqual(received, [
        { kind: 'progress', progress: 1, total: 2, message: 'half' },
        { kind: 'log', message: 'note' },
      ])
    },
  },
  {
    title: 'empty lines on descriptor 3 count against the limit, and a flood of them ends the run',
    needs: ['python'],
    async check({ run }) {
      const flood = "import os\nwhile True: os.write(3, b'\\n' * 65536)"
      await assert.rejects(run(code('python', flood)), (error) => {
        assert.ok(ToolError.is(error), String(error))
        assert.deepEqual([error.code, error.details?.limit], ['LIMIT_EXCEEDED', 'messageBytes'])
        return true
      })
    },
  },
  ...chatty.map(
    ([language, text]): RuntimeCase => ({
      title: `${language} that reports its progress 25,000 times keeps its value`,
      needs: [language],
      async check({ run }) {
        const outcome = await run(code(language, text))
        assertExit(outcome, 0)
        assert.deepEqual(outcome.value, 'v'.repeat(900_000))
        assert.ok(outcome.lost !== undefined && outcome.lost.lines > 1_000, JSON.stringify(outcome.lost))
      },
    }),
  ),
  {
    title: 'an aborted signal ends the run with its reason, and the sandbox is disposed',
    needs: ['python'],
    async check({ runtime }) {
      const sandbox = await runtime.open(
        { language: 'python', limits: attackLimits, network: 'none' },
        AbortSignal.timeout(30_000),
      )
      const controller = new AbortController()
      const reason = new ToolError('CANCELLED', 'enough')
      const running = sandbox.run(
        {
          ...code('python', 'import time\nprint("on", flush=True)\ntime.sleep(60)'),
          onOutput: () => controller.abort(reason),
        },
        controller.signal,
      )
      await assert.rejects(running, (error) => error === reason)
      await sandbox.dispose()
      await sandbox.ended
    },
  },
  {
    title: 'an aborted open rejects with the reason',
    needs: ['python'],
    async check({ runtime }) {
      const reason = new ToolError('CANCELLED', 'enough')
      const spec = { language: 'python', limits: attackLimits, network: 'none' } as const
      await assert.rejects(runtime.open(spec, AbortSignal.abort(reason)), (error) => error === reason)
    },
  },
  {
    title: 'an unused sandbox can be disposed twice',
    needs: ['python'],
    async check({ runtime }) {
      const spec = { language: 'python', limits: attackLimits, network: 'none' } as const
      const sandbox = await runtime.open(spec, AbortSignal.timeout(30_000))
      await sandbox.dispose()
      await sandbox.dispose()
      await sandbox.ended
    },
  },
  {
    title: 'concurrent sandboxes do not see each other’s files',
    needs: ['python'],
    async check({ run }) {
      const write = (n: number) => run(code('python', `open("mine","w").write("${n}")\nimport os\nreturn os.listdir()`))
      const outcomes = await Promise.all([1, 2, 3, 4].map(write))
      for (const outcome of outcomes) {
        assertExit(outcome, 0)
        assert.deepEqual(
          (outcome.value as string[]).filter((name) => name !== '.gantry'),
          ['mine'],
        )
      }
    },
  },
  {
    title: 'the outcome has the usage and names what enforces each limit',
    needs: ['python'],
    async check({ run }) {
      const { usage, enforced } = await run(code('python', 'sum(range(3_000_000))'))
      assert.ok(usage.wallMs > 0)
      assert.ok(usage.cpuMs === undefined || usage.cpuMs > 0)
      assert.ok(usage.memoryPeakBytes === undefined || usage.memoryPeakBytes > 1_000_000)
      assert.ok(enforced.wallMs !== undefined && enforced.stdoutBytes !== undefined)
    },
  },
]

export const programCases: readonly RuntimeCase[] = [...inEachLanguage, ...valueOfEach, ...faultOfEach, ...single]
