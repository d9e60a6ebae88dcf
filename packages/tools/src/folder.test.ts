import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import { createExecutor } from '@gantry/tools'
import { loadToolsFolder, type ToolsFolder, type ToolsFolderMemory } from './folder.ts'

const definition = (name: string, more = ''): string => `
import { defineTool } from ${JSON.stringify(join(import.meta.dirname, '../../core/src/tools/tool.ts'))}
export const ${name} = defineTool({
  namespace: 'mine', name: '${name}', description: 'A tool.', effect: 'read', inputSchema: { type: 'object' },
  run: () => ({ ran: '${name}' }), ${more}
})
`
const manifest = (more: object = {}): string =>
  JSON.stringify({
    namespace: 'mine',
    description: 'Adds.',
    effect: 'read',
    inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
    ...more,
  })

function folderOf(t: TestContext, files: { readonly [name: string]: string }): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

const ids = ({ loaded }: ToolsFolder): unknown => loaded.flatMap(({ tools }) => tools)
const reasons = ({ refused }: ToolsFolder): unknown =>
  Object.fromEntries(refused.map(({ file, reason, tool }) => [tool ?? file, reason]))

test('modules provide the tools that they export, by any name and in lists, and other files are ignored', async (t) => {
  const list = `${definition('two')}\nexport default [two]\nexport const other = 7`
  const folder = folderOf(t, { 'one.ts': definition('one'), 'two.mjs': list, 'README.md': '#', '.hidden.ts': 'nope(' })
  mkdirSync(join(folder, 'lib'))
  writeFileSync(join(folder, 'lib', 'broken.ts'), 'nope(')
  writeFileSync(join(folder, 'one.test.ts'), 'nope(')
  const found = await loadToolsFolder(folder)
  assert.deepEqual([ids(found), found.refused], [['mine:one:1.0.0', 'mine:two:1.0.0'], []])
  const gantry = createExecutor({ tools: found.tools })
  assert.deepEqual((await gantry.run('mine:two', {})).output, { ran: 'two' })
  await gantry.close()
})

test('an invalid file is refused with the reason and does not affect the others', async (t) => {
  const folder = folderOf(t, {
    'bad.ts': 'throw new Error("out of luck")',
    'empty.js': 'export const x = 1',
    'good.ts': definition('good'),
    'lonely.py': 'print(1)',
    'odd.tool.json': manifest({ descriptoin: 'x' }),
    'schema.ts': definition('schema').replace("{ type: 'object' }", "{ type: 'objekt' }"),
    'where.tool.json': manifest(),
  })
  const found = await loadToolsFolder(folder)
  assert.deepEqual(ids(found), ['mine:good:1.0.0'])
  const why = reasons(found) as { [file: string]: string }
  assert.equal(why['bad.ts'], 'out of luck')
  assert.match(why['empty.js'] ?? '', /exports nothing/)
  assert.match(why['lonely.py'] ?? '', /needs a manifest beside it: lonely\.tool\.json/)
  assert.match(why['odd.tool.json'] ?? '', /\/descriptoin is not known \(did you mean "description"\?\)/)
  assert.match(why['schema.ts'] ?? '', /objekt|type/)
  assert.match(why['where.tool.json'] ?? '', /names no program/)
  assert.equal(Object.keys(why).length, 6)
})

test('built-in names, names of other sources, duplicates and names outside the rules are refused', async (t) => {
  const shadow = (namespace: string): string => definition('run').replace("'mine'", `'${namespace}'`)
  const folder = folderOf(t, {
    'a.ts': shadow('code'),
    'b.ts': shadow('Shell'),
    'c.ts': definition('alias', "aliases: ['http:fetch'],"),
    'd.ts': shadow('github'),
    'e.ts': definition('twice'),
    'f.ts': definition('twice'),
    'g.ts': definition('taken'),
    'h.ts': definition('unwanted'),
    'i.ts': shadow('other'),
    'j.ts': definition('twice', "version: '2.0.0',"),
  })
  const found = await loadToolsFolder(folder, {
    allow: ['mine:*', 'code:*', 'shell:*', 'github:*'],
    deny: ['mine:unwanted'],
    reserved: ['GitHub'],
    taken: ['mine:taken'],
  })
  assert.deepEqual(ids(found), ['mine:twice:1.0.0', 'mine:twice:2.0.0'])
  assert.deepEqual(
    found.refused.map(({ file }) => file),
    ['a.ts', 'b.ts', 'c.ts', 'd.ts', 'f.ts', 'g.ts', 'h.ts', 'i.ts'],
  )
  assert.match((reasons(found) as { [id: string]: string })['mine:twice:1.0.0'] ?? '', /defined by e\.ts already/)
  await assert.rejects(loadToolsFolder(folder, { allow: ['a:b:c:d'] }), { code: 'CONFIG_INVALID' })
})

test('a folder that other users can write to is refused entirely, and so is a missing folder', async (t) => {
  const folder = folderOf(t, { 'one.ts': definition('one') })
  chmodSync(folder, 0o777)
  await assert.rejects(loadToolsFolder(folder), { code: 'CONFIG_INVALID', message: /is world-writable/ })
  chmodSync(folder, 0o700)
  assert.deepEqual(ids(await loadToolsFolder(folder)), ['mine:one:1.0.0'])
  await assert.rejects(loadToolsFolder(join(folder, 'nowhere')), { code: 'CONFIG_INVALID' })
  await assert.rejects(loadToolsFolder(join(folder, 'one.ts')), { code: 'CONFIG_INVALID' })
})

test('files that other users can write to, links out of the folder, large files and invalid names are refused', async (t) => {
  const elsewhere = folderOf(t, { 'out.ts': definition('out') })
  const folder = folderOf(t, {
    'in.ts': definition('inner'),
    'open.ts': definition('open'),
    'large.js': `// ${'x'.repeat(1_048_576)}`,
    'a b.ts': definition('spaced'),
    'p.tool.json': manifest({ program: '../secret.py' }),
    'q.tool.json': manifest({ program: 'link.py' }),
  })
  chmodSync(join(folder, 'open.ts'), 0o666)
  symlinkSync(join(elsewhere, 'out.ts'), join(folder, 'out.ts'))
  symlinkSync('/etc/passwd', join(folder, 'link.py'))
  symlinkSync('in.ts', join(folder, 'same.ts'))
  const found = await loadToolsFolder(folder)
  assert.deepEqual(ids(found), ['mine:inner:1.0.0'])
  const why = reasons(found) as { [file: string]: string }
  assert.match(why['open.ts'] ?? '', /is world-writable/)
  assert.match(why['large.js'] ?? '', /larger than/)
  assert.match(why['a b.ts'] ?? '', /has a name/)
  assert.match(why['p.tool.json'] ?? '', /has a name/)
  for (const name of ['out.ts', 'q.tool.json']) assert.match(why[name] ?? '', /leads out of the folder/, name)
})

test('a broken new version of a file keeps its old tools, and a removed file removes its tools', async (t) => {
  const folder = folderOf(t, { 'one.ts': definition('one'), 'two.ts': definition('two') })
  const memory: ToolsFolderMemory = new Map()
  await loadToolsFolder(folder, { memory })
  writeFileSync(join(folder, 'one.ts'), 'export const = broken')
  const kept = await loadToolsFolder(folder, { memory })
  assert.deepEqual(ids(kept), ['mine:one:1.0.0', 'mine:two:1.0.0'])
  assert.deepEqual(
    kept.refused.map(({ file, kept: still }) => [file, still]),
    [['one.ts', true]],
  )
  assert.deepEqual(ids(await loadToolsFolder(folder)), ['mine:two:1.0.0'], 'without a memory nothing is kept')
  writeFileSync(join(folder, 'one.ts'), definition('one').replace('ran', 'new'))
  rmSync(join(folder, 'two.ts'))
  const repaired = await loadToolsFolder(folder, { memory })
  assert.deepEqual([ids(repaired), repaired.refused], [['mine:one:1.0.0'], []])
  const gantry = createExecutor({ tools: repaired.tools })
  assert.deepEqual((await gantry.run('mine:one', {})).output, { new: 'one' })
  await gantry.close()
})

test('a module beside a manifest never runs in this process, even when the manifest is broken', async (t) => {
  const trap = 'globalThis.gantryTrap = true'
  const folder = folderOf(t, { 'a.tool.json': '{', 'a.mjs': trap, 'b.tool.json': manifest(), 'b.js': trap })
  const found = await loadToolsFolder(folder)
  assert.deepEqual(ids(found), ['mine:b:1.0.0'])
  assert.equal('gantryTrap' in globalThis, false)
  await loadToolsFolder(folderOf(t, { 'c.js': trap }))
  assert.equal('gantryTrap' in globalThis, true, 'the trap would have been seen')
  Reflect.deleteProperty(globalThis, 'gantryTrap')
})

sandboxTest('programs with a manifest run in a sandbox: Python, a shell script and an executable', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  write('add.tool.json', manifest({ files: ['helper.py'], limits: { wallMs: 20_000 } }))
  write('add.py', 'import json, sys, helper\nargs = json.load(sys.stdin)\nreturn {"sum": helper.add(**args)}\n')
  write('helper.py', 'def add(a, b):\n    return a + b\n')
  write('where.tool.json', manifest({ result: 'text' }))
  write('where.sh', 'cat > /dev/null; ls /root /home 2>&1 | head -1; pwd')
  write('own.tool.json', manifest({ program: 'own-program' }))
  write('own-program', '#!/bin/sh\nread -r line\nprintf \'{"got":%s}\' "$line"\n')
  chmodSync(join(folder, 'own-program'), 0o755)
  const found = await loadToolsFolder(folder)
  assert.deepEqual([ids(found), found.refused], [['mine:add:1.0.0', 'mine:own:1.0.0', 'mine:where:1.0.0'], []])
  const gantry = createExecutor({ tools: found.tools, runtimes: { pool: false } })
  try {
    const added = await gantry.run('mine:add', { a: 2, b: 3 })
    assert.deepEqual([added.status, added.output, added.runtime?.kind], ['ok', { sum: 5 }, 'process'])
    assert.deepEqual((await gantry.run('mine:own', { a: 1 })).output, { got: { a: 1 } })
    assert.doesNotMatch(String((await gantry.run('mine:where', {})).output), new RegExp(folder))
  } finally {
    await gantry.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
