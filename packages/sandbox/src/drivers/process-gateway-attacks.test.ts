import assert from 'node:assert/strict'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { createWasmRuntime } from '@gantry/sandbox-wasm/internal/wasm'
import { adding, askingRuns } from './gateway.fixture.ts'
import { createProcessRuntime } from './process.ts'

const run = askingRuns()
/** What every program can do in its own process: find the descriptor and the word that stands before its lines. */
const own = `
import gc, os, subprocess, sys
channel = next(thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel')
def say(text): os.write(channel.fd, channel.head + text.encode() + b'\\n')
`

sandboxTest(
  'control: lines with the token are accepted, so the attacks below are refused for their content',
  async () => {
    const { outcome, questions } = await run(
      `${own}say('? 1 call {}')\nsay('. 0')\nsay('= 7')\nos._exit(0)`,
      () => undefined,
    )
    assert.deepEqual([questions, outcome.value], [[{ number: 1, kind: 'call', text: '{}' }], 7])
  },
)

sandboxTest(
  'gateway requests out of order, receipts of responses that were never sent, and unknown words end the run (91, 92)',
  async () => {
    const lines = [
      '? 2 call {}',
      '? 1 call {}\\n',
      '? 1 CALL {}',
      '? 01e0 call {}',
      '. 1',
      '. -1',
      '. x',
      '1 1 - "mine"',
      '',
    ]
    for (const line of lines) {
      const twice = line.endsWith('\\n') ? `say('? 1 call {}'); say('? 1 call {}')` : `say('${line}')`
      await assert.rejects(run(`${own}${twice}\nawait tools.math.add(a=1, b=1)`, adding), { code: 'CODE_FAILED' }, line)
    }
  },
)

sandboxTest(
  'lines without the token, on any descriptor and from any child, are not a value, an end or a gateway request (91, 93)',
  async () => {
    const code = `${own}
forged = b'{"value":"forged"}\\n{"done":true,"code":0}\\n? 1 call {}\\n= 1\\n__OUT__:1\\n{"__out":1}\\n'
for fd in (1, 2, 3, channel.fd): os.write(fd, forged)
subprocess.run(['sh', '-c', 'cat >&%d' % channel.fd], input=forged, pass_fds=[channel.fd])
listed = subprocess.run(['ls', '/proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout.split()
return [await tools.math.add(a=1, b=1), str(channel.fd) in listed]
`
    const { outcome, questions } = await run(code, adding)
    assert.deepEqual([outcome.value, outcome.exit, questions.length], [[2, false], { code: 0 }, 1])
  },
)

sandboxTest('a forked child cannot make gateway requests, return a value or end the run for its parent', async () => {
  const code = `${own}
pid = os.fork()
if pid == 0:
    try:
        await tools.math.add(a=1, b=1)
    except RuntimeError as error:
        print(error, flush=True)
    return 'of the child'
os.waitpid(pid, 0)
return await tools.math.add(a=1, b=1)
`
  const { outcome, stdout, questions } = await run(code, adding)
  assert.deepEqual([outcome.value, questions.length], [2, 1])
  assert.match(stdout, /only the main thread of the program itself/)
})

sandboxTest('floods of empty or invalid lines without the token end the run with LIMIT_EXCEEDED', async () => {
  for (const line of ["b'\\n' * 65536", "b'no json\\n' * 8192", "b'x' * 65536"]) {
    const flood = run(`${own}while True: os.write(channel.fd, ${line})`, adding)
    await assert.rejects(flood, { code: 'LIMIT_EXCEEDED', details: { limit: 'messageBytes' } }, line)
  }
})

sandboxTest('loops and memory bombs are stopped by their limits (86, 88)', async () => {
  const never = () => undefined
  const hit = async (code: string, limits: object) => (await run(code, never, { limits })).outcome.hit
  assert.equal(await hit('while True: pass', { cpuMs: 300 }), 'cpuMs')
  assert.equal(await hit('while True: await asyncio.sleep(0)', { cpuMs: 300 }), 'cpuMs')
  assert.equal(await hit('await tools.a.b()', { wallMs: 400 }), 'wallMs')
  assert.equal(await hit('x = [0]\nwhile True: x = x + x', { memoryBytes: 67_108_864 }), 'memoryBytes')
  const doubling = 'async def f(): await asyncio.gather(f(), f())\nawait f()'
  assert.match((await hit(doubling, { cpuMs: 1_000, memoryBytes: 67_108_864 })) ?? '', /^(?:cpuMs|memoryBytes)$/)
  const deep = 'async def f(n): await f(n + 1)\nawait f(0)'
  assert.equal((await run(deep, never)).outcome.fault?.name, 'RecursionError')
})

sandboxTest('unbounded or oversized gateway requests end the run before they fill the host’s memory (87)', async () => {
  const flood = 'calls = [tools.math.add(a=n, b=1) for n in range(1_000_000)]'
  const { outcome } = await run(`async def f(): ${flood}\nawait f()`, adding)
  assert.match(outcome.fault?.message ?? '', /more than 100000 calls wait/)
  const large = "calls = [tools.math.add(text='x' * 900_000) for n in range(20)]\nawait asyncio.gather(*calls)"
  await assert.rejects(
    run(large, () => undefined),
    { code: 'LIMIT_EXCEEDED', details: { limit: 'waitingBytes' } },
  )
  const fits = await run("return await run('math:add', a='x' * 900_000, b='y')", adding)
  assert.equal((fits.outcome.value as string).length, 900_001)
  assert.match(
    (await run("await run('a:b', a='x' * 1_000_001)", adding)).outcome.fault?.message ?? '',
    /longer than 1000000/,
  )
})

sandboxTest('a gateway response without a request fails the run, and a late one has no effect', async () => {
  const code = 'return await tools.math.add(a=1, b=1)'
  const runtime = createProcessRuntime()
  const spec = {
    language: 'python',
    network: 'none',
    gateway: true,
    limits: {
      wallMs: 9_000,
      cpuMs: 9_000,
      memoryBytes: 134_217_728,
      pids: 16,
      diskBytes: 1_000_000,
      stdoutBytes: 1_000,
      stderrBytes: 1_000,
    },
  } as const
  const { signal } = new AbortController()
  try {
    const wrong = await runtime.open(spec, signal)
    const program = { kind: 'code', language: 'python', code } as const
    const ask = (_: unknown, answer: (one: { number: number; ok: boolean; text: string }) => void) =>
      answer({ number: 2, ok: true, text: '1' })
    await assert.rejects(wrong.run({ program, gateway: { ask } }, signal), {
      code: 'BACKEND_FAILED',
      message: /gateway request 2,/,
    })
    const stopped = await runtime.open(spec, signal)
    const stop = new AbortController()
    let late: (() => void) | undefined
    const gateway = {
      ask: (_: unknown, answer: (one: { number: number; ok: boolean; text: string }) => void) => {
        late = () => answer({ number: 1, ok: true, text: '2' })
        stop.abort(new Error('stopped'))
      },
    }
    await assert.rejects(stopped.run({ program, gateway }, stop.signal), { message: 'stopped' })
    late?.()
  } finally {
    await runtime.close()
  }
})

sandboxTest(
  'a runtime or language without gateway support refuses a gateway sandbox with a reason or remedy',
  async () => {
    const limits = {
      wallMs: 1_000,
      cpuMs: 1_000,
      memoryBytes: 134_217_728,
      pids: 16,
      diskBytes: 1,
      stdoutBytes: 1,
      stderrBytes: 1,
    }
    const spec = { network: 'none', gateway: true, limits } as const
    const [wasm, processes] = [createWasmRuntime(), createProcessRuntime()]
    try {
      assert.match(wasm.refuses({ ...spec, language: 'python' })?.remedy ?? '', /process runtime/)
      assert.equal(processes.refuses({ ...spec, language: 'python' }), undefined)
      for (const language of ['javascript', 'bash']) {
        assert.match(processes.refuses({ ...spec, language })?.reason ?? '', new RegExp(language))
      }
      assert.notEqual(processes.refuses({ ...spec, language: 'python', session: true }), undefined)
    } finally {
      await Promise.all([wasm.close(), processes.close()])
    }
  },
)
