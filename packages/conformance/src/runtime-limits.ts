import assert from 'node:assert/strict'
import type { RuntimeCase } from './runtime-case.ts'
import { assertExit, textOf } from './runtime-case.ts'

const code = (language: string, text: string) => ({ program: { kind: 'code', language, code: text } }) as const
const script = (text: string) => ({ program: { kind: 'script', script: text } }) as const

/** What a program may do to stay, to grow or to spread, and the limit that ends each. */
export const limitCases: readonly RuntimeCase[] = [
  {
    title: 'a program that sleeps past the wall limit is ended by it',
    needs: ['python'],
    async check({ run }) {
      const { hit } = await run(code('python', 'import time\ntime.sleep(60)'), { wallMs: 300 })
      assert.equal(hit, 'wallMs')
    },
  },
  {
    title: 'a busy loop is ended by the limit of processor time',
    needs: ['python'],
    async check({ run }) {
      const { hit } = await run(code('python', 'while True: pass'), { cpuMs: 300 })
      assert.equal(hit, 'cpuMs')
    },
  },
  {
    title: 'a busy loop in JavaScript is ended too',
    needs: ['javascript'],
    async check({ run }) {
      const { hit } = await run(code('javascript', 'while (true) {}'), { cpuMs: 500, wallMs: 10_000 })
      assert.equal(hit, 'cpuMs')
    },
  },
  {
    title: 'a memory bomb is ended by the limit of memory',
    needs: ['python'],
    async check({ run }) {
      const { hit } = await run(code('python', 'hoard = []\nwhile True: hoard.append(bytearray(1_000_000))'))
      assert.equal(hit, 'memoryBytes')
    },
  },
  {
    title: 'a memory bomb in JavaScript is ended too',
    needs: ['javascript'],
    async check({ run }) {
      const text = 'const hoard = []; while (true) hoard.push(new Uint8Array(1_000_000).fill(1))'
      const { hit } = await run(code('javascript', text))
      assert.equal(hit, 'memoryBytes')
    },
  },
  {
    title: 'a fork bomb is ended by the limit of processes',
    needs: ['bash', 'processes'],
    async check({ run }) {
      const { hit } = await run(code('bash', ':(){ :|:& };:\nwait; sleep 30'))
      assert.equal(hit, 'pids')
    },
  },
  {
    title: 'a workspace that is full ends a program that cannot do without more',
    needs: ['python', 'disk'],
    async check({ run }) {
      const text = 'with open("fill","wb") as f:\n  while True: f.write(b"x"*1_000_000)'
      const { hit } = await run(code('python', text), { diskBytes: 8_000_000 })
      assert.equal(hit, 'diskBytes')
    },
  },
  {
    title: 'a flood of output is ended, and only what the limit allows is kept',
    needs: ['shell'],
    async check({ run }) {
      const { hit, stdout } = await run(script('yes flood'), { stdoutBytes: 10_000 })
      assert.equal(hit, 'stdoutBytes')
      assert.equal(stdout.bytes.length, 10_000)
      assert.equal(stdout.truncated, true)
    },
  },
  {
    title: 'a flood on stderr without line ends is ended too',
    needs: ['python'],
    async check({ run }) {
      const text = 'import sys\nwhile True: sys.stderr.buffer.write(b"\\xff"*100_000)'
      const { hit, stderr } = await run(code('python', text), { stderrBytes: 10_000 })
      assert.equal(hit, 'stderrBytes')
      assert.equal(stderr.bytes.length, 10_000)
    },
  },
  {
    title: 'a program that ignores SIGTERM is ended on time',
    needs: ['shell'],
    async check({ run }) {
      const { hit } = await run(script("trap '' TERM INT HUP\nwhile :; do sleep 1; done"), { wallMs: 300 })
      assert.equal(hit, 'wallMs')
    },
  },
  {
    title: 'a program that stops itself is ended on time',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const { hit } = await run(script('kill -STOP $$'), { wallMs: 300 })
      assert.equal(hit, 'wallMs')
    },
  },
  {
    title: 'daemons that were forked twice end with the program',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const text = '(setsid sh -c "trap \'\' TERM; while :; do sleep 1; done" </dev/null >/dev/null 2>&1 &) ; echo left'
      const outcome = await run(script(text))
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'left\n')
    },
  },
  {
    title: 'a daemon that keeps stdout open does not keep the run',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const outcome = await run(script('(setsid sleep 60 &) ; echo left'))
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'left\n')
    },
  },
]
