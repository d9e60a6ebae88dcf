import assert from 'node:assert/strict'
import { assertExit, type RuntimeCase, textOf } from './runtime-case.ts'

const code = (language: string, text: string) => ({ program: { kind: 'code', language, code: text } }) as const
const script = (text: string) => ({ program: { kind: 'script', script: text } }) as const

/** Programs that stay, grow or spread, and the limit that ends each. */
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
    title: 'a busy loop is ended by the CPU time limit',
    needs: ['python'],
    async check({ run }) {
      const { hit } = await run(code('python', 'while True: pass'), { cpuMs: 300 })
      assert.equal(hit, 'cpuMs')
    },
  },
  {
    title: 'a busy loop in JavaScript is ended by the CPU time limit',
    needs: ['javascript'],
    async check({ run }) {
      const { hit } = await run(code('javascript', 'while (true) {}'), { cpuMs: 500, wallMs: 10_000 })
      assert.equal(hit, 'cpuMs')
    },
  },
  {
    title: 'a memory bomb is ended by the memory limit',
    needs: ['python'],
    async check({ run }) {
      const { hit } = await run(code('python', 'hoard = []\nwhile True: hoard.append(bytearray(1_000_000))'))
      assert.equal(hit, 'memoryBytes')
    },
  },
  {
    title: 'a memory bomb in JavaScript is ended by the memory limit',
    needs: ['javascript'],
    async check({ run }) {
      const text = 'const hoard = []; while (true) hoard.push(new Uint8Array(1_000_000).fill(1))'
      const { hit } = await run(code('javascript', text))
      assert.equal(hit, 'memoryBytes')
    },
  },
  {
    title: 'a memory bomb in C is ended by the memory limit',
    needs: ['c'],
    async check({ run }) {
      const text = `#include <stdlib.h>
int main(void) {
  for (;;) {
    volatile char *bytes = malloc(1 << 20);
    for (int at = 0; at < 1 << 20; at += 4096) bytes[at] = 1;
  }
}`
      const { hit } = await run(code('c', text))
      assert.equal(hit, 'memoryBytes')
    },
  },
  {
    title: 'a fork bomb is ended by the process limit',
    needs: ['bash', 'processes'],
    async check({ run }) {
      const { hit } = await run(code('bash', ':(){ :|:& };:\nwait; sleep 30'))
      assert.equal(hit, 'pids')
    },
  },
  {
    title: 'a program that fills its workspace is ended by the disk limit',
    needs: ['python', 'disk'],
    async check({ run }) {
      const text = 'with open("fill","wb") as f:\n  while True: f.write(b"x"*1_000_000)'
      const { hit } = await run(code('python', text), { diskBytes: 8_000_000 })
      assert.equal(hit, 'diskBytes')
    },
  },
  {
    title: 'a flood of stdout is ended by its limit, and the output is truncated at the limit',
    needs: ['shell'],
    async check({ run }) {
      const { hit, stdout } = await run(script('yes flood'), { stdoutBytes: 10_000 })
      assert.equal(hit, 'stdoutBytes')
      assert.equal(stdout.bytes.length, 10_000)
      assert.equal(stdout.truncated, true)
    },
  },
  {
    title: 'a flood of stderr without line breaks is ended by its limit',
    needs: ['python'],
    async check({ run }) {
      const text = 'import sys\nwhile True: sys.stderr.buffer.write(b"\\xff"*100_000)'
      const { hit, stderr } = await run(code('python', text), { stderrBytes: 10_000 })
      assert.equal(hit, 'stderrBytes')
      assert.equal(stderr.bytes.length, 10_000)
    },
  },
  {
    title: 'a program that ignores SIGTERM is ended by the wall limit',
    needs: ['shell'],
    async check({ run }) {
      const { hit } = await run(script("trap '' TERM INT HUP\nwhile :; do sleep 1; done"), { wallMs: 300 })
      assert.equal(hit, 'wallMs')
    },
  },
  {
    title: 'a program that stops itself with SIGSTOP is ended by the wall limit',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const { hit } = await run(script('kill -STOP $$'), { wallMs: 300 })
      assert.equal(hit, 'wallMs')
    },
  },
  {
    title: 'a detached daemon that ignores SIGTERM does not delay the end of the run',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const text = '(setsid sh -c "trap \'\' TERM; while :; do sleep 1; done" </dev/null >/dev/null 2>&1 &) ; echo left'
      const outcome = await run(script(text))
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'left\n')
    },
  },
  {
    title: 'a daemon that keeps stdout open does not delay the end of the run',
    needs: ['shell', 'processes'],
    async check({ run }) {
      const outcome = await run(script('(setsid sleep 60 &) ; echo left'))
      assertExit(outcome, 0)
      assert.equal(textOf(outcome.stdout.bytes), 'left\n')
    },
  },
]
