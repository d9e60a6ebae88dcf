import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loadToolsFolder, type ToolsFolderMemory } from './folder.ts'

const definition = (name: string): string => `
import { defineTool } from ${JSON.stringify(join(import.meta.dirname, '../../core/src/tools/tool.ts'))}
export const ${name} = defineTool({
  namespace: 'mine', name: '${name}', description: 'A tool.', effect: 'read', inputSchema: { type: 'object' },
  run: () => ({ ran: '${name}' }),
})
`
const good = { namespace: 'mine', description: 'Adds.', effect: 'read', inputSchema: { type: 'object' } }

interface Folder {
  readonly imported: readonly string[]
  write(name: string, text: string | object): void
  path(name: string): string
  load(memory?: ToolsFolderMemory): Promise<{
    readonly tools: readonly string[]
    readonly reasons: { readonly [file: string]: string }
  }>
}

/** A folder, with the names of the files that were imported into this process. */
function folderOf(t: TestContext, files: { readonly [name: string]: string | object }): Folder {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-tools-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const imported: string[] = []
  const path = (name: string): string => join(folder, name)
  const write = (name: string, text: string | object): void =>
    writeFileSync(path(name), typeof text === 'string' ? text : JSON.stringify(text))
  for (const [name, text] of Object.entries(files)) write(name, text)
  const load = (url: string): Promise<object> => {
    imported.push(new URL(url).pathname.split('/').at(-1) ?? '')
    return import(url)
  }
  return {
    imported,
    write,
    path,
    async load(memory) {
      const { loaded, refused } = await loadToolsFolder(folder, { load, ...(memory === undefined ? {} : { memory }) })
      const reasons = Object.fromEntries(refused.map(({ file, reason }) => [file, reason]))
      return { tools: loaded.flatMap(({ tools }) => tools), reasons }
    },
  }
}

const programs = { 'fetcher.mjs': 'export const x = 1', 'lib.js': 'export const y = 1' }
const named = { ...good, program: 'fetcher.mjs', files: ['lib.js'] }

for (const [what, manifest] of Object.entries({
  'has an unknown key': { ...named, descripton: 'typo' },
  'lists a file that is missing': { ...named, files: ['lib.js', 'gone.js'] },
  'lists a file that is not a name': { ...named, files: ['lib.js', 7] },
  'names its program under a wrong key': { ...good, progam: 'fetcher.mjs', files: ['lib.js'] },
  'names its program as a path': { ...named, program: './fetcher.mjs', files: './lib.js' },
  'names its program without its extension': { ...named, program: 'fetcher', files: ['Lib.js'] },
  'names its program in a command': { ...good, run: ['node fetcher.mjs --with=lib.js'] },
  'is a list': [named],
})) {
  test(`a manifest that ${what} prevents the import of its program and files, and of no other module`, async (t) => {
    const folder = folderOf(t, { ...programs, 'weather.tool.json': manifest, 'other.mjs': definition('other') })
    const { tools, reasons } = await folder.load()
    assert.deepEqual(folder.imported, ['other.mjs'])
    assert.deepEqual(tools, ['mine:other:1.0.0'])
    assert.ok('weather.tool.json' in reasons)
  })
}

test('a file that a broken manifest may describe is not imported and reported with the manifest to repair', async (t) => {
  const folder = folderOf(t, { ...programs, 'weather.tool.json': { ...good, progam: 'fetcher.mjs' } })
  const { reasons } = await folder.load()
  assert.match(reasons['fetcher.mjs'] ?? '', /until weather\.tool\.json is repaired/)
})

const unreadable: { readonly [what: string]: (folder: Folder) => void } = {
  'is not JSON': ({ write }) => write('weather.tool.json', '{ "namespace": '),
  'is YAML without a reader': ({ write }) => write('weather.tool.yaml', 'program: fetcher.mjs'),
  'can be written by others': ({ write, path }) => {
    write('weather.tool.json', { ...named, program: 'elsewhere.mjs', files: [] })
    chmodSync(path('weather.tool.json'), 0o666)
  },
  'is a dangling link': ({ path }) => symlinkSync('nowhere', path('weather.tool.json')),
}

for (const [what, spoil] of Object.entries(unreadable)) {
  test(`while a manifest ${what}, no file is newly imported as a module`, async (t) => {
    const folder = folderOf(t, { ...programs, 'other.mjs': definition('other') })
    spoil(folder)
    const { tools, reasons } = await folder.load()
    assert.deepEqual([folder.imported, tools], [[], []])
    for (const name of ['fetcher.mjs', 'lib.js', 'other.mjs']) {
      assert.match(reasons[name] ?? '', /until weather\.tool\.(?:json|yaml) is repaired/, name)
    }
  })
}

test('after a reload with a broken manifest its program is still not imported, and known modules still are', async (t) => {
  const folder = folderOf(t, { ...programs, 'weather.tool.json': named, 'other.mjs': definition('other') })
  const memory: ToolsFolderMemory = new Map()
  const tools = ['mine:weather:1.0.0', 'mine:other:1.0.0']
  assert.deepEqual((await folder.load(memory)).tools, tools)
  folder.write('weather.tool.json', '{ "program": "fresh.mjs", ')
  folder.write('fresh.mjs', definition('fresh'))
  folder.write('other.mjs', `${definition('other')}// changed`)
  const broken = await folder.load(memory)
  assert.deepEqual(folder.imported, ['other.mjs', 'other.mjs'])
  assert.deepEqual([broken.tools, Object.keys(broken.reasons)], [tools, ['weather.tool.json', 'fresh.mjs']])
  folder.write('weather.tool.json', { ...good, program: 7 })
  await folder.load(memory)
  assert.ok(!folder.imported.includes('fetcher.mjs'), 'what it described when it was last in order')
  folder.write('weather.tool.json', named)
  assert.deepEqual(await folder.load(memory), { tools: [...tools, 'mine:fresh:1.0.0'].sort(byOrder), reasons: {} })
})

test('a manifest that another manifest lists as a file is still loaded', async (t) => {
  const folder = folderOf(t, {
    ...programs,
    'a.tool.json': { ...good, files: ['b.tool.json'] },
    'a.js': 'return 1',
    'b.tool.json': named,
  })
  assert.deepEqual((await folder.load()).tools, ['mine:a:1.0.0', 'mine:b:1.0.0'])
  assert.deepEqual(folder.imported, [])
})

const order = ['mine:weather:1.0.0', 'mine:fresh:1.0.0', 'mine:other:1.0.0']
const byOrder = (one: string, other: string): number => order.indexOf(one) - order.indexOf(other)
