import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'

const root = dirname(import.meta.dirname)
const project = mkdtempSync(join(tmpdir(), 'gantry-packed-'))

function node(args: readonly string[], cwd: string) {
  return spawnSync(process.execPath, args, { cwd, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } })
}

before(() => {
  const built = node([join(root, 'scripts/build.ts')], root)
  assert.equal(built.status, 0, built.stdout + built.stderr)
  const scope = join(project, 'node_modules/@gantry')
  mkdirSync(scope, { recursive: true })
  for (const name of ['contract', 'core', 'service'])
    cpSync(join(root, 'build', name), join(scope, name), { recursive: true })
  for (const name of ['yaml', 'fast-check', 'pure-rand']) {
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name))
  }
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
})

after(() => {
  rmSync(project, { recursive: true, force: true })
  rmSync(join(root, 'build'), { recursive: true, force: true })
})

test('the built library runs in an empty project, without type stripping', () => {
  writeFileSync(
    join(project, 'main.js'),
    `import { createExecutor, demoTools } from '@gantry/core'
     import { testBackend } from '@gantry/core/conformance'
     const gantry = createExecutor({ tools: demoTools() })
     const chain = await gantry.chain([{ tool: 'demo:add', args: { a: 5, b: 3 } }, { tool: 'demo:echo', args: { value: '{{prev.result}}' } }])
     console.log(JSON.stringify(chain.output), typeof testBackend)
     await gantry.close()`,
  )
  const { stdout, stderr, status } = node(['--no-experimental-strip-types', 'main.js'], project)
  assert.equal(status, 0, stderr)
  assert.equal(stdout, '{"value":8} function\n')
})

test('the built command runs', () => {
  const bin = join(project, 'node_modules/@gantry/service/bin/gantry.mjs')
  const { stdout, stderr, status } = node([bin, 'run', 'demo:add', '{"a":5,"b":3}', '--json'], project)
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout).output, { result: 8 })
})

test('the built declarations type-check for a strict user', () => {
  writeFileSync(
    join(project, 'user.ts'),
    `import { createExecutor, defineTool, type Result } from '@gantry/core'
     const add = defineTool({ namespace: 'math', name: 'add', description: 'Adds.',
       inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
       run: ({ a, b }, context) => ({ result: a + b, id: context.callId }) })
     const result: Result = await createExecutor({ tools: [add] }).run('math:add', { a: 1, b: 2 })
     export const status: string = result.status`,
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node']
  const typeRoots = ['--typeRoots', join(root, 'node_modules/@types')]
  const { stdout, status } = node([tsc, ...flags, ...typeRoots, 'user.ts'], project)
  assert.equal(status, 0, stdout)
})
