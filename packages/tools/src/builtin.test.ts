import assert from 'node:assert/strict'
import { after } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { JsonObject } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from './builtin.ts'
import { codeSession, sandboxTools } from './sandbox.ts'

const gantry = createExecutor({ tools: builtinTools(), runtimes: { pool: false } })
after(() => gantry.close())

const run = (tool: string, args: JsonObject) => gantry.run(tool, args)

sandboxTest('code:run returns output, value, runtime, usage and enforced limits', async () => {
  const result = await run('code:run', { language: 'python', code: 'print(6*7)\nreturn [1]' })
  assert.deepEqual(result.output, { exitCode: 0, stdout: '42\n', stderr: '', value: [1] })
  assert.equal(result.status, 'ok')
  assert.deepEqual(result.runtime, { kind: 'process', isolation: 'namespaces' })
  assert.ok(result.usage.wallMs > 0)
  assert.equal(typeof result.usage.enforced.memoryBytes, 'string')
  assert.equal(result.usage.hit, undefined)
})

sandboxTest('a non-zero exit code is part of the output, not a failure', async () => {
  const result = await run('shell:run', { script: 'echo out; echo err >&2; exit 3' })
  assert.equal(result.status, 'ok')
  assert.deepEqual(result.output, { exitCode: 3, stdout: 'out\n', stderr: 'err\n' })
})

sandboxTest('the wall limit is a timeout whose result keeps the output so far', async () => {
  const result = await run('shell:run', { script: 'echo before; sleep 60', limits: { wallMs: 400 } })
  assert.deepEqual([result.status, result.error?.code, result.usage.hit], ['timeout', 'TIMEOUT', 'wallMs'])
  assert.equal((result.output as JsonObject).stdout, 'before\n')
})

sandboxTest('a program ended by a limit is LIMIT_EXCEEDED with the name of the limit', async () => {
  const code = 'x = []\nwhile True: x.append(bytearray(1_000_000))'
  const result = await run('code:run', { language: 'python', code, limits: { memoryBytes: 64_000_000 } })
  assert.deepEqual(
    [result.status, result.error?.code, result.error?.details?.limit, result.usage.hit],
    ['failed', 'LIMIT_EXCEEDED', 'memoryBytes', 'memoryBytes'],
  )
})

sandboxTest('code:run returns created and changed files, not files that were only read', async () => {
  const result = await run('shell:run', {
    script: 'cat in.txt > out.txt; printf "\\377" > bin; echo more >> changed.txt',
    files: { 'in.txt': 'text', 'changed.txt': 'one\n', 'raw.bin': { base64: '/w==' } },
  })
  assert.deepEqual((result.output as JsonObject).files, {
    'out.txt': 'text',
    bin: { base64: '/w==' },
    'changed.txt': 'one\nmore\n',
  })
})

sandboxTest('invalid arguments are INPUT_INVALID with their path, and nothing runs', async () => {
  const paths = async (tool: string, args: JsonObject) => {
    const { error } = await run(tool, args)
    const issues = error?.details?.issues as readonly { readonly path: string }[] | undefined
    return [error?.code, issues?.[0]?.path]
  }
  assert.deepEqual(await paths('code:run', { language: 'cobol', code: 'x' }), ['INPUT_INVALID', '/language'])
  assert.deepEqual(await paths('shell:run', { argv: ['true'], files: { '../x': 'y' } }), [
    'INPUT_INVALID',
    '/files/..~1x',
  ])
  assert.deepEqual(await paths('shell:run', { argv: ['true'], limits: { pids: 0 } }), ['INPUT_INVALID', '/limits/pids'])
  const wide = { argv: ['true'], limits: { memoryBytes: 10 ** 15 } }
  assert.deepEqual(await paths('shell:run', wide), ['INPUT_INVALID', '/limits/memoryBytes'])
  assert.equal((await run('shell:run', { argv: ['true'], script: 'true' })).error?.code, 'INPUT_INVALID')
  assert.equal((await run('shell:run', { argv: ['true'], profile: 'nope' })).error?.code, 'INPUT_INVALID')
})

sandboxTest(
  'an unavailable runtime is refused with the reason and the remedy, never replaced by a weaker one',
  async () => {
    for (const runtime of ['gvisor', 'unsafe_host']) {
      const { status, error, output } = await run('code:run', { language: 'bash', code: 'id', runtime })
      assert.deepEqual([status, error?.code, output], ['failed', 'RUNTIME_UNAVAILABLE', null], runtime)
    }
  },
)

sandboxTest('unsafe_host runs only when the profile allows it and the call names it', async () => {
  const own = createExecutor({
    tools: builtinTools(),
    runtimes: { pool: false, profiles: { dev: { unsafeHost: true } } },
  })
  try {
    const args = { language: 'bash', code: 'echo here' }
    const named = await own.run('code:run', { ...args, profile: 'dev', runtime: 'unsafe_host' })
    assert.deepEqual([named.status, named.runtime], ['ok', { kind: 'unsafe_host', isolation: 'none' }])
    const unnamed = await own.run('code:run', { ...args, profile: 'dev' })
    assert.notEqual(unnamed.runtime?.kind, 'unsafe_host')
    const standard = await own.run('code:run', { ...args, runtime: 'unsafe_host' })
    assert.equal(standard.error?.code, 'RUNTIME_UNAVAILABLE')
  } finally {
    await own.close()
  }
})

sandboxTest('output streams while the program runs', async () => {
  const chunks: unknown[] = []
  for await (const event of gantry.stream('shell:run', { script: 'echo one; echo two >&2' })) {
    if (event.kind === 'chunk') chunks.push(event.data)
    if (event.kind === 'done') assert.equal(event.result.status, 'ok')
  }
  assert.deepEqual(
    chunks.sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b))),
    [
      { stream: 'stderr', text: 'two\n' },
      { stream: 'stdout', text: 'one\n' },
    ],
  )
})

sandboxTest('a cancelled call kills the program, and its result is cancelled with the output so far', async () => {
  const controller = new AbortController()
  const stop = gantry.on('call:reported', () => controller.abort())
  const running = gantry.run('shell:run', { script: 'echo before; sleep 60' }, { signal: controller.signal })
  const { status, output } = await running
  stop()
  assert.deepEqual([status, output], ['cancelled', { stdout: 'before\n', stderr: '' }])
})

sandboxTest('every example of the tools that run programs returns its documented output', async () => {
  for (const { tool } of sandboxTools()) {
    for (const { args, output } of tool.examples ?? []) {
      assert.deepEqual((await run(`${tool.namespace}:${tool.name}`, args)).output, output, tool.name)
    }
  }
  let session = ''
  for (const { title, args } of codeSession.tool.examples ?? []) {
    const named = 'session' in args ? { ...args, session } : args
    const { status, output } = await run('code:session', named)
    assert.equal(status, 'ok', title)
    session ||= String((output as JsonObject).session)
  }
})
