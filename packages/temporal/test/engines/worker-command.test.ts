import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { builtinTools, createExecutor } from '@gantry/tools'
import { serverAddress } from './temporal.fixture.ts'

const bin = join(import.meta.dirname, '../../../gantry/bin/gantry.mjs')

test('gantry worker temporal offers sandboxes and runs handed-over work, as its configuration says, until SIGTERM', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-worker-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const key = randomBytes(32).toString('base64')
  const settings = {
    address: serverAddress(),
    taskQueue: `command-${randomBytes(6).toString('hex')}`,
    payloadKey: 'secret:temporal-key',
  }
  const config = {
    demo: true,
    runtimes: { temporal: settings },
    engines: { temporal: settings },
    secrets: { 'temporal-key': { env: 'TEMPORAL_KEY' } },
  }
  await writeFile(join(folder, 'gantry.config.json'), JSON.stringify(config))
  const worker = spawn(process.execPath, [bin, 'worker', 'temporal', '--json'], {
    cwd: folder,
    env: { ...process.env, TEMPORAL_KEY: key },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => worker.kill('SIGKILL'))
  const [line] = await once(worker.stdout, 'data')
  const { state, roles } = JSON.parse(String(line))
  assert.deepEqual([state, roles], ['ready', ['sandboxes', 'calls']])
  const gantry = createExecutor({
    tools: builtinTools(),
    runtimes: { pool: false, temporal: settings, profiles: { vm: { floor: 'microvm' } } },
    engines: { temporal: settings },
    secrets: { 'temporal-key': key },
  })
  try {
    const identity = { principal: 'ann', tenant: 'acme', permissions: ['*'] }
    const steps = [{ id: 'sum', tool: 'demo:add', args: { a: 40, b: 2 } }]
    const { error, output } = await gantry.chain(steps, { engine: 'temporal', identity })
    assert.deepEqual([error, output], [undefined, { result: 42 }])
    const args = { language: 'python', code: 'print(6*7)', runtime: 'temporal' }
    const ran = await gantry.run('code:run', args)
    assert.deepEqual([ran.error, ran.runtime?.kind, ran.runtime?.inner], [undefined, 'temporal', 'process'])
    const hardened = await gantry.run('code:run', { ...args, profile: 'vm' })
    assert.equal(hardened.error?.code, 'RUNTIME_UNAVAILABLE', 'no runtime of the worker is as strong')
  } finally {
    await gantry.close()
  }
  const file = join(folder, '.gantry', 'worker-audit.jsonl')
  const records = (await readFile(file, 'utf8'))
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text))
  assert.deepEqual(
    records.map(({ phase, tool, principal }) => [phase, tool, principal]),
    [
      ['start', 'demo:add:1.0.0', 'ann'],
      ['end', 'demo:add:1.0.0', 'ann'],
    ],
  )
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  worker.kill('SIGTERM')
  const [code] = await once(worker, 'exit')
  assert.equal(code, 0)
})
