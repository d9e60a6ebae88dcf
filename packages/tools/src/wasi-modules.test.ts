import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { builtinTools, createExecutor } from '@gantry/tools'
import { assemble, i32, op } from '../../sandbox-wasm/src/wasi/assemble.fixture.ts'
import { loadToolsFolder } from './folder.ts'

/** Writes what it reads, at most 1,000 bytes: a list of one buffer at 0, the counts at 16 and 20, the buffer at 64. */
const echo = assemble({
  imports: [
    ['fd_read', [i32, i32, i32, i32]],
    ['fd_write', [i32, i32, i32, i32]],
  ],
  body: [
    ...op.store(0, op.i32(64)),
    ...op.store(4, op.i32(1_000)),
    ...[...op.i32(0), ...op.i32(0), ...op.i32(1), ...op.i32(16), ...op.call(0), ...op.drop],
    ...op.store(4, op.load(16)),
    ...[...op.i32(1), ...op.i32(0), ...op.i32(1), ...op.i32(20), ...op.call(1), ...op.drop],
  ],
})
const base64 = Buffer.from(echo).toString('base64')

test('code:run runs a WASI module from its files, in the wasm runtime', async (t) => {
  const gantry = createExecutor({ tools: builtinTools() })
  t.after(() => gantry.close())
  const files = { 'main.wasm': { base64 } }
  const result = await gantry.run('code:run', {
    language: 'wasm',
    code: 'main.wasm',
    files,
    stdin: 'hello',
    profile: 'wasm',
  })
  assert.deepEqual(result.output, { exitCode: 0, stdout: 'hello', stderr: '' }, JSON.stringify(result.error))
  assert.deepEqual([result.runtime?.kind, result.runtime?.isolation], ['wasm', 'wasm'])
})

test('code:run runs a WASI module that is an artifact of the caller', async (t) => {
  const gantry = createExecutor({ tools: builtinTools() })
  t.after(() => gantry.close())
  const put = await gantry.run('files:put', { name: 'echo.wasm', base64 })
  const { id } = put.output as { readonly id: string }
  const files = { 'echo.wasm': { artifact: id } }
  const result = await gantry.run('code:run', {
    language: 'wasm',
    code: 'echo.wasm',
    files,
    stdin: 'kept',
    profile: 'wasm',
  })
  assert.equal(
    (result.output as { readonly stdout?: string } | undefined)?.stdout,
    'kept',
    JSON.stringify(result.error),
  )
})

test('a module that is missing, is no WebAssembly, or asks for more isolation than wasm has is refused', async (t) => {
  const gantry = createExecutor({ tools: builtinTools() })
  t.after(() => gantry.close())
  const run = async (args: object) =>
    (await gantry.run('code:run', { language: 'wasm', code: 'main.wasm', ...args })).error
  const absent = await run({ profile: 'wasm' })
  assert.equal(absent?.code, 'INPUT_INVALID')
  assert.match(absent?.message ?? '', /must be the path of the module in `files`/)
  const text = await run({ profile: 'wasm', files: { 'main.wasm': 'not a module' } })
  assert.equal(text?.code, 'INPUT_INVALID')
  assert.match(text?.message ?? '', /does not start as a WebAssembly module/)
  const strong = await run({ profile: 'hardened', files: { 'main.wasm': { base64 } } })
  assert.equal(strong?.code, 'RUNTIME_UNAVAILABLE')
})

test('a .wasm file with a manifest in the tools folder is a tool that gets its arguments on stdin', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'echo.wasm'), echo)
  const manifest = {
    namespace: 'mine',
    description: 'Echoes.',
    effect: 'read',
    profile: 'wasm',
    inputSchema: { type: 'object' },
  }
  writeFileSync(join(folder, 'echo.tool.json'), JSON.stringify(manifest))
  const found = await loadToolsFolder(folder)
  assert.deepEqual(found.refused, [])
  const gantry = createExecutor({ tools: found.tools })
  t.after(() => gantry.close())
  const result = await gantry.run('mine:echo', { a: 1 })
  assert.deepEqual(result.output, { a: 1 }, JSON.stringify(result.error))
  assert.equal(result.runtime?.kind, 'wasm')
})
