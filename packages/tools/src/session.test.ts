import assert from 'node:assert/strict'
import { after } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { Identity, JsonObject, Result } from '@gantry/contract'
import { memoryArtifacts } from '@gantry/core/internal/artifacts/memory'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from './builtin.ts'

const runtimes = { pool: false, sessions: { maxPerPrincipal: 2 } } as const
const gantry = createExecutor({ tools: builtinTools(), runtimes })
after(() => gantry.close())

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const ann: Identity = { ...ada, principal: 'ann' }
// Of the same name as her victim, so that only the tenant tells them apart.
const eve: Identity = { ...ada, tenant: 'umbrella' }

const call = (args: JsonObject, identity = ada): Promise<Result> => gantry.run('code:session', args, { identity })

// biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
async function ok(args: JsonObject, identity = ada): Promise<any> {
  const { status, output, error, warnings } = await call(args, identity)
  assert.deepEqual([status, error, warnings], ['ok', undefined, []], JSON.stringify(args))
  return output
}

async function open(language = 'python', identity = ada): Promise<string> {
  return (await ok({ action: 'open', language }, identity)).session
}

sandboxTest(
  'variables and files persist across runs of a session, and each run returns only changed files',
  async () => {
    const session = await open()
    const first = await ok({ action: 'run', session, code: 'x = 41\nopen("a.txt", "w").write("one")\nprint("set")' })
    assert.deepEqual([first.stdout, first.files], ['set\n', { 'a.txt': 'one' }])
    const second = await ok({ action: 'run', session, code: 'return x + 1' })
    assert.deepEqual([second.value, second.files], [42, undefined])
    const third = await ok({ action: 'run', session, code: 'open("a.txt", "a").write("!")' })
    assert.deepEqual(third.files, { 'a.txt': 'one!' })
    assert.deepEqual(await ok({ action: 'close', session }), { closed: true })
    assert.equal((await call({ action: 'run', session, code: '1' })).error?.code, 'INPUT_INVALID')
  },
)

sandboxTest('files of a session are written, listed and read by path', async () => {
  const session = await open('javascript')
  assert.deepEqual(await ok({ action: 'files', session, files: { 'in/a.txt': 'put' } }), { put: ['in/a.txt'] })
  const code = "const fs = require('fs'); return fs.readFileSync('in/a.txt', 'utf8')"
  assert.equal((await ok({ action: 'run', session, code })).value, 'put')
  assert.deepEqual((await ok({ action: 'files', session })).list, [{ path: 'in/a.txt', bytes: 3 }])
  assert.deepEqual(await ok({ action: 'files', session, path: 'in/a.txt' }), { files: { 'in/a.txt': 'put' } })
  assert.equal((await call({ action: 'files', session, path: '../../etc/passwd' })).error?.code, 'INPUT_INVALID')
  await ok({ action: 'close', session })
})

sandboxTest('every action on another caller’s session fails as if the session did not exist', async () => {
  const session = await open()
  const made = (await call({ action: 'close', session: 'made-up' })).error
  for (const stranger of [ann, eve]) {
    for (const args of [{ action: 'run', code: 'print(1)' }, { action: 'files' }, { action: 'close' }]) {
      const { error, output } = await call({ ...args, session }, stranger)
      assert.deepEqual([error?.code, error?.message, output], [made?.code, made?.message, null])
    }
  }
  assert.equal((await ok({ action: 'run', session, code: 'print(1)' })).stdout, '1\n')
  await ok({ action: 'close', session })
})

sandboxTest('a limit that ends a run ends its session, and the run and later calls report it', async () => {
  const opened = await ok({ action: 'open', language: 'python', limits: { wallMs: 500 } })
  const { session } = opened
  const { status, output, usage } = await call({
    action: 'run',
    session,
    code: 'print("begun", flush=True)\nwhile True: pass',
  })
  assert.deepEqual([status, usage.hit, (output as JsonObject).stdout], ['timeout', 'wallMs', 'begun\n'])
  assert.match(String((output as JsonObject).ended), /reached its limit wallMs/)
  assert.match(
    (await call({ action: 'run', session, code: '1' })).error?.message ?? '',
    /ended, because a run in it reached/,
  )
})

sandboxTest('output streams, a cancelled run ends its session, and sessions of one caller are limited', async () => {
  const session = await open()
  const controller = new AbortController()
  const code = 'import time\nprint("early", flush=True)\nwhile True: time.sleep(0.01)'
  const events = gantry.stream(
    'code:session',
    { action: 'run', session, code },
    { identity: ada, signal: controller.signal },
  )
  const seen: unknown[] = []
  for await (const event of events) {
    if (event.kind === 'chunk') {
      seen.push(event.data)
      controller.abort()
    }
    if (event.kind === 'error') assert.equal(event.result.status, 'cancelled')
  }
  assert.deepEqual(seen, [{ stream: 'stdout', text: 'early\n' }])
  assert.match(
    (await call({ action: 'run', session, code: '1' })).error?.message ?? '',
    /because a run in it was cancelled/,
  )
  const [one, two] = [await open(), await open()]
  assert.equal((await call({ action: 'open', language: 'python' })).error?.code, 'RATE_LIMITED')
  for (const id of [one, two]) await ok({ action: 'close', session: id })
})

sandboxTest('conflicting arguments and languages without sessions are refused', async () => {
  const code = async (args: JsonObject) => (await call(args)).error?.code
  assert.equal(await code({ action: 'open' }), 'INPUT_INVALID')
  assert.equal(await code({ action: 'open', language: 'python', code: '1' }), 'INPUT_INVALID')
  assert.equal(await code({ action: 'close' }), 'INPUT_INVALID')
  assert.equal(await code({ action: 'open', language: 'cobol' }), 'INPUT_INVALID')
  assert.equal(await code({ action: 'open', language: 'bash' }), 'RUNTIME_UNAVAILABLE')
  const network = { allow: ['https://example.com'] }
  assert.equal(await code({ action: 'open', language: 'python', profile: 'hardened', network }), 'EGRESS_DENIED')
})

sandboxTest('the sandbox network options also apply to sessions', async () => {
  const tools = builtinTools({ sandboxNetwork: { allow: ['https://api.example.com'] } })
  const own = createExecutor({ tools, runtimes, egress: { allow: ['https://example.com', 'https://api.example.com'] } })
  const open = async (origin: string) =>
    (await own.run('code:session', { action: 'open', language: 'python', network: { allow: [origin] } })).error?.code
  try {
    assert.equal(await open('https://example.com'), 'EGRESS_DENIED')
    assert.equal(await open('https://api.example.com'), undefined)
  } finally {
    await own.close()
  }
})

sandboxTest(
  'with an artifact store, files of a session become artifacts, and artifacts are accepted as files',
  async () => {
    const own = createExecutor({ tools: builtinTools(), runtimes, artifacts: memoryArtifacts() })
    const run = (args: JsonObject): Promise<Result> => own.run('code:session', args, { identity: ada })
    try {
      const { session } = (await run({ action: 'open', language: 'python' })).output as { session: string }
      const made = await run({ action: 'run', session, code: 'open("t.csv", "w").write("a,b")' })
      const { files } = made.output as { files: JsonObject }
      assert.deepEqual(files['t.csv'], { artifact: made.artifacts[0]?.id })
      const again = await run({
        action: 'run',
        session,
        code: 'print(open("u").read())',
        files: { u: files['t.csv'] ?? '' },
      })
      assert.equal((again.output as JsonObject).stdout, 'a,b\n')
    } finally {
      await own.close()
    }
  },
)
