import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

async function gantry(
  folder: string,
  environment: NodeJS.ProcessEnv,
  ...line: string[]
): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder, environment })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

/** Runs `gantry runtime serve` until `stop`; resolves when it is ready. */
async function serve(folder: string, ...line: string[]) {
  const enough = new AbortController()
  const ready = Promise.withResolvers<string>()
  const out = async (text: string): Promise<void> => ready.resolve(text)
  const io = keptIo({ folder, signal: enough.signal, out })
  const done = runCommandLine(['runtime', 'serve', '--port', '0', '--json', ...line], io)
  const { url, keyFile } = JSON.parse(await Promise.race([ready.promise, done.then(() => '{}')]))
  const stop = (): Promise<number> => {
    enough.abort()
    return done
  }
  return { url, keyFile, io, stop }
}

sandboxTest(
  'runtime serve makes a key, and another Gantry runs Python and programs over tools through it',
  async () => {
    using host = folderWith({})
    const { url, keyFile, io, stop } = await serve(host.path)
    try {
      assert.equal(statSync(keyFile).mode & 0o777, 0o600)
      const key = readFileSync(keyFile, 'utf8').trim()
      const config = {
        demo: true,
        secrets: { host: { env: 'HOST_KEY' } },
        runtimes: { remote: [{ url, keyId: 'default', key: 'secret:host' }] },
        profiles: { standard: { runtimes: ['remote'] } },
      }
      using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
      const call = JSON.stringify({ language: 'python', code: 'print(6*7)' })
      const ran = await gantry(folder.path, { HOST_KEY: key }, 'run', 'code:run', call, '--json')
      const result = JSON.parse(ran.out)
      assert.deepEqual(
        [ran.code, result.output.stdout, result.runtime],
        [0, '42\n', { kind: 'remote', isolation: 'namespaces', inner: 'process' }],
      )
      const program = 'r = await tools.demo.add(a=1, b=2)\nreturn r'
      const code = await gantry(folder.path, { HOST_KEY: key }, 'code', '-e', program, '--language', 'python', '--json')
      assert.deepEqual([code.code, JSON.parse(code.out).output], [0, { result: 3 }])
      const wrong = await gantry(folder.path, { HOST_KEY: 'w'.repeat(40) }, 'run', 'code:run', call)
      assert.equal(wrong.code, 5)
      assert.match(wrong.err, /does not accept the key/)
      assert.ok(!`${wrong.err}${io.printed.err}`.includes('w'.repeat(40)))
    } finally {
      assert.equal(await stop(), 0)
    }
    const records = readFileSync(join(host.path, '.gantry/runtime-audit.jsonl'), 'utf8').trim().split('\n')
    const events = records.map((line) => JSON.parse(line))
    assert.ok(events.some(({ event, runtime }) => event === 'opened' && runtime === 'process'))
    assert.ok(events.some(({ event, code }) => event === 'refused' && code === 'SIGNATURE_WRONG'))
    assert.match(io.printed.err, /"code":"SIGNATURE_WRONG"/)
  },
)

test('runtime serve refuses an address that other machines reach without TLS', async () => {
  using folder = folderWith({})
  const { code, err } = await gantry(folder.path, {}, 'runtime', 'serve', '--listen', '0.0.0.0')
  assert.equal(code, 2)
  assert.match(err, /\/tls is required to listen on 0\.0\.0\.0/)
})

test('wrong settings of remote hosts and of the runtime server stop the start with their path and what to write', async () => {
  const key = 'k'.repeat(32)
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ runtimes: { remote: [] } }, /\/runtimes\/remote.* at least one host/],
    [
      { runtimes: { remote: [{ url: 'http://10.0.0.1:7421', keyId: 'a', key }] } },
      /\/runtimes\/remote\/0\/url.* must be https:/,
    ],
    [
      { runtimes: { remote: [{ url: 'https://h:1', keyId: 'a', key: 'short' }] } },
      /\/remote\/0\/key.* must have 32 to 512 characters/,
    ],
    [
      { runtimes: { remote: [{ url: 'https://h:1', keyID: 'a', keyId: 'a', key }] } },
      /\/remote\/0\/keyID.*did you mean "?keyId/,
    ],
    [{ runtimeServer: { keys: [{ id: 'a', key, kee: 1 }] } }, /\/runtimeServer\/keys\/0\/kee/],
    [{ runtimeServer: { listn: '::1' } }, /\/runtimeServer\/listn.*did you mean "?listen/],
  ]
  for (const [config, expected] of cases) {
    using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
    const { code, err } = await gantry(folder.path, {}, 'config', 'check')
    assert.equal(code, 2, JSON.stringify(config))
    assert.match(err, expected)
  }
})
