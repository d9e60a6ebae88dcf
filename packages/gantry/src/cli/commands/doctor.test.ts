import assert from 'node:assert/strict'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

test('doctor lists all thirteen runtimes: limits and start time of an available one, reason and remedy of an unavailable one', async () => {
  using folder = folderWith({})
  const { code, out } = await gantry(folder.path, 'doctor', '--json')
  assert.equal(code, 0)
  const { runtimes } = JSON.parse(out) as { runtimes: { [key: string]: unknown }[] }
  assert.deepEqual(
    runtimes.map(({ kind, isolation }) => [kind, isolation]),
    [
      ['wasm', 'wasm'],
      ['process', 'namespaces'],
      ['unsafe_host', 'none'],
      ['docker', 'container'],
      ['containerd', 'container'],
      ['gvisor', 'kernel'],
      ['kata', 'microvm'],
      ['kubernetes', 'container'],
      ['firecracker', 'microvm'],
      ['qemu', 'microvm'],
      ['remote', 'none'],
      ['proxmox_lxc', 'container'],
      ['temporal', 'none'],
    ],
  )
  for (const { kind, available, version, startMs, limits, reason, remedy } of runtimes) {
    if (available === true) {
      assert.equal(typeof version, 'string', String(kind))
      assert.ok(Number(startMs) > 0, String(kind))
      assert.ok(Object.keys(limits as object).includes('wallMs'), String(kind))
    } else {
      assert.ok(String(reason).length > 0 && String(remedy).length > 0, String(kind))
    }
  }
  const shown = await gantry(folder.path, 'doctor')
  assert.match(shown.out, /wasm +wasm +.*starts in/)
})

test('doctor says what to install for a runtime that is not configured, and why the configured engine cannot be used', async () => {
  const infos = async (config: object) => {
    using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
    const { code, out } = await gantry(folder.path, 'doctor', '--json')
    assert.equal(code, 0)
    const { runtimes } = JSON.parse(out) as { runtimes: { kind: string; reason?: string; remedy?: string }[] }
    return new Map(runtimes.map((one) => [one.kind, one]))
  }
  const bare = await infos({})
  for (const kind of [
    'docker',
    'containerd',
    'gvisor',
    'kata',
    'kubernetes',
    'firecracker',
    'qemu',
    'remote',
    'temporal',
    'proxmox_lxc',
  ]) {
    assert.equal(bare.get(kind)?.reason, `The runtime ${kind} is not configured.`)
    assert.match(
      bare.get(kind)?.remedy ?? '',
      new RegExp(`^Add runtimes\\.${kind.replace('_lxc', '')} to the configuration.* It needs `),
    )
  }
  const wrong = await infos({ runtimes: { docker: { socket: '/nowhere/docker.sock' }, gvisor: {} } })
  for (const kind of ['docker', 'gvisor']) {
    assert.equal(wrong.get(kind)?.reason, 'Docker at unix:///nowhere/docker.sock is unreachable (ENOENT).')
    assert.match(wrong.get(kind)?.remedy ?? '', /Start the engine, or name its socket/)
  }
  assert.match(wrong.get('kata')?.reason ?? '', /is not configured/)
})

test('an unavailable runtime exits with 5, and invalid arguments exit with 2', async () => {
  using folder = folderWith({})
  const absent = await gantry(folder.path, 'run', 'code:run', '{"language":"bash","code":"id","runtime":"gvisor"}')
  assert.deepEqual([absent.code, absent.out], [5, ''])
  assert.match(absent.err, /^RUNTIME_UNAVAILABLE: .*gvisor/)
  const wrong = await gantry(folder.path, 'run', 'code:run', '{"language":"cobol","code":"x"}')
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /\/language/)
})

test('the CLI runs code, and a run ended by a limit has its own exit code', async () => {
  using folder = folderWith({})
  const args = { language: 'javascript', code: 'console.log(6*7)', runtime: 'wasm' }
  const { code, out } = await gantry(folder.path, 'run', 'code:run', JSON.stringify(args), '--json')
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(out).output, { exitCode: 0, stdout: '42\n', stderr: '' })
  const endless = { ...args, code: 'while (true) {}', limits: { wallMs: 200 } }
  assert.equal((await gantry(folder.path, 'run', 'code:run', JSON.stringify(endless))).code, 4)
})

interface Explained {
  readonly tool: string
  readonly chosen?: string
  readonly floor: string
  readonly runtimes: readonly { readonly kind: string; readonly verdict: string; readonly reason: string }[]
}

async function explain(folder: string, call: unknown): Promise<{ code: number; explained: Explained; err: string }> {
  const { code, out, err } = await gantry(folder, 'doctor', '--explain', JSON.stringify(call), '--json')
  return { code, explained: out === '' ? assert.fail(err) : JSON.parse(out), err }
}

const wasmCall = { tool: 'code:run', args: { language: 'javascript', code: 'while (true) {}', runtime: 'wasm' } }

test('doctor --explain says which runtime would run a call and why no other, and does not run it', async () => {
  using folder = folderWith({})
  // A program that would not end shows that none was started.
  const { code, explained } = await explain(folder.path, wasmCall)
  assert.equal(code, 0)
  assert.match(explained.tool, /^code:run:/)
  assert.equal(explained.chosen, 'wasm')
  assert.equal(explained.runtimes.length, 13)
  const verdicts = new Map(explained.runtimes.map(({ kind, verdict, reason }) => [kind, { verdict, reason }]))
  assert.equal(verdicts.get('wasm')?.verdict, 'chosen')
  assert.match(verdicts.get('process')?.reason ?? '', /The call names the runtime "wasm"/)
  assert.match(verdicts.get('docker')?.reason ?? '', /is not configured/)
  const shown = await gantry(folder.path, 'doctor', '--explain', JSON.stringify(wasmCall))
  assert.match(
    shown.out,
    /^code:run:\S+: javascript, profile wasm, at least wasm, no network\. It would run in wasm\.\n/,
  )
  assert.match(shown.out, /✓ wasm +wasm +It is the first that serves/)
  assert.match(shown.out, /✗ process +namespaces +The call names/)
})

test('doctor --explain takes the floor of the policy into account, and exits with 5 when no runtime would run the call', async () => {
  const config = { policy: { rules: [{ allow: 'code:*', floor: 'microvm' }] } }
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
  const { code, explained } = await explain(folder.path, wasmCall)
  assert.deepEqual([code, explained.chosen, explained.floor], [5, undefined, 'microvm'])
  assert.match(explained.runtimes.find(({ kind }) => kind === 'wasm')?.reason ?? '', /at least microvm is required/)
})

test('doctor --explain explains sessions and programs over tools', async () => {
  using folder = folderWith({})
  const program = await explain(folder.path, {
    tool: 'code:program',
    args: { code: 'return 1', language: 'typescript' },
  })
  assert.equal(program.explained.chosen, 'wasm')
  const asked = { action: 'open', language: 'python', runtime: 'docker' }
  const session = await explain(folder.path, { tool: 'code:session', args: asked })
  assert.deepEqual([session.code, session.explained.chosen], [5, undefined])
})

test('doctor --explain names what is wrong with a call: its JSON, its form, its tool, its arguments, no sandbox', async () => {
  using folder = folderWith({})
  const cases: readonly (readonly [text: string, code: RegExp])[] = [
    ['{"tool":', /^PAYLOAD_INVALID: --explain from the command line is not valid JSON/],
    ['[]', /^INPUT_INVALID: --explain is a call such as/],
    ['7', /^INPUT_INVALID: --explain is a call such as/],
    ['{}', /^INPUT_INVALID: --explain has no "tool"/],
    ['{"tool":"code:run","arguments":{}}', /^INPUT_INVALID: A call has "tool" and "args", not "arguments"/],
    ['{"tool":"code:run","args":[]}', /^INPUT_INVALID: The "args" of a call are an object/],
    ['{"tool":"code:rum","args":{}}', /^TOOL_NOT_FOUND: /],
    ['{"tool":"code:run","args":{"language":"cobol","code":""}}', /^INPUT_INVALID: [\s\S]*language/],
    [
      '{"tool":"code:session","args":{"action":"close","session":"x"}}',
      /^INPUT_INVALID: .*only the action open selects one/,
    ],
    [
      '{"tool":"demo:add","args":{"a":1,"b":2}}',
      /^INPUT_INVALID: demo:add:\S+ runs on the backend local, which uses no sandbox/,
    ],
  ]
  for (const [text, message] of cases) {
    const { code, out, err } = await gantry(folder.path, 'doctor', '--explain', text)
    assert.match(err, message, text)
    assert.equal(out, '', text)
    assert.notEqual(code, 0, text)
  }
})
