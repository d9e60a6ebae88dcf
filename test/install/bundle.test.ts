import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type BuildOptions, build } from 'esbuild'
import { emptyFolder, node } from './project.fixture.ts'

const program = (from: string): string => `import { createExecutor, defineTool } from '${from}'
const double = defineTool({ namespace: 'my', name: 'double', description: 'Doubles.', effect: 'read',
  inputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }, run: ({ n }) => n * 2 })
const gantry = createExecutor({ tools: [double] })
console.log((await gantry.run('my:double', { n: 21 })).output)
await gantry.close()`

async function bundle(folder: string, options: BuildOptions): Promise<string> {
  const outfile = join(folder, 'bundled.mjs')
  const { warnings } = await build({
    absWorkingDir: folder,
    entryPoints: ['main.js'],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile,
    logLevel: 'silent',
    ...options,
  })
  assert.deepEqual(warnings, [])
  return outfile
}

test('a program with @gantry/core is bundled into one file, which runs where nothing is installed', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'main.js'), program('@gantry/core'))
  const { stdout, stderr } = node([await bundle(folder, {})], tmpdir())
  assert.equal(stdout, '42\n', stderr)
})

test('a program with gantry is bundled with packages external, and runs where they are installed', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'main.js'), program('gantry'))
  const { stdout, stderr } = node([await bundle(folder, { packages: 'external' })], folder)
  assert.equal(stdout, '42\n', stderr)
})

test('@gantry/client is bundled for a browser', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'main.js'), "export { createClient } from '@gantry/client'")
  assert.ok(await bundle(folder, { platform: 'browser' }))
})
