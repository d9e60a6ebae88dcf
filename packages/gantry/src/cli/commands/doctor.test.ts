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

test('doctor lists all thirteen runtimes: what each holds and how fast it starts, or why it is not there and what helps', async () => {
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

test('a runtime that is not there ends with 5 and says what to do; wrong arguments with 2', async () => {
  using folder = folderWith({})
  const absent = await gantry(folder.path, 'run', 'code:run', '{"language":"bash","code":"id","runtime":"gvisor"}')
  assert.deepEqual([absent.code, absent.out], [5, ''])
  assert.match(absent.err, /^RUNTIME_UNAVAILABLE: .*gvisor/)
  const wrong = await gantry(folder.path, 'run', 'code:run', '{"language":"cobol","code":"x"}')
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /\/language/)
})

test('code runs from the command, and a limit that ends it is an exit code of its own', async () => {
  using folder = folderWith({})
  const args = { language: 'javascript', code: 'console.log(6*7)', runtime: 'wasm' }
  const { code, out } = await gantry(folder.path, 'run', 'code:run', JSON.stringify(args), '--json')
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(out).output, { exitCode: 0, stdout: '42\n', stderr: '' })
  const endless = { ...args, code: 'while (true) {}', limits: { wallMs: 200 } }
  assert.equal((await gantry(folder.path, 'run', 'code:run', JSON.stringify(endless))).code, 4)
})
