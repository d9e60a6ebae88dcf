import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { eventually } from './broker-site.fixture.ts'
import { migratedFolder, type ServeProcess, startServe } from './serve.fixture.ts'
import { gantry } from './spawn.fixture.ts'

const greet = (word: string): string => `
import { defineTool } from '@gantry/core'
export const greet = defineTool({
  namespace: 'mine', name: 'greet', description: 'Greets.', effect: 'read', inputSchema: { type: 'object' },
  run: () => ({ word: '${word}' }),
})
`
const manifest = `
namespace: mine
description: Squares a number.
effect: read
inputSchema:
  type: object
  properties: { n: { type: number } }
  required: [n]
`
const square = 'import json, sys\nn = json.load(sys.stdin)["n"]\nprint(json.dumps({"square": n * n}))\n'
const shadow = greet('stolen').replace("'mine'", "'code'").replace("'greet'", "'run'")

/** A folder with a configuration, tools and a migrated database. */
async function openFolder(t: TestContext): Promise<{ folder: string; put: (name: string, text: string) => void }> {
  const folder = await migratedFolder(t)
  mkdirSync(join(folder, 'tools'), { mode: 0o755 })
  const put = (name: string, text: string): void => writeFileSync(join(folder, 'tools', name), text, { mode: 0o644 })
  put('greet.ts', greet('hello'))
  put('square.tool.yaml', manifest)
  put('square.py', square)
  put('shadow.ts', shadow)
  writeFileSync(
    join(folder, 'gantry.config.json'),
    JSON.stringify({ toolsFolder: { path: 'tools', allow: ['mine:*', 'code:*'] }, runtimes: { pool: false } }),
  )
  return { folder, put }
}

const call = async (serve: ServeProcess, tool: string, args: object = {}): Promise<unknown> =>
  (await serve.post('/v1/calls', { tool, args, waitMs: 20_000 })).value.output

test('commands load the tools of the folder, and report rejected files with the reason', async (t) => {
  const { folder } = await openFolder(t)
  const options = { folder, cache: join(folder, '.cache') }
  const ran = await gantry(['run', 'mine:square', '{"n":7}', '--json', '--local'], options)
  assert.deepEqual(JSON.parse(ran.out).output, { square: 49 }, ran.err)
  assert.match(ran.err, /warning: code:run:1\.0\.0 of shadow\.ts was not loaded: is in the namespace code/)
  const report = await gantry(['tools', 'folder', '--json'], options)
  assert.equal(report.code, 1)
  const { loaded, refused } = JSON.parse(report.out)
  assert.deepEqual(
    loaded.flatMap((file: { tools: string[] }) => file.tools),
    ['mine:square:1.0.0', 'mine:greet:1.0.0'],
  )
  assert.deepEqual([refused.length, refused[0].file], [1, 'shadow.ts'])
  const checked = await gantry(['config', 'check', '--json'], options)
  assert.deepEqual(JSON.parse(checked.out).toolsFolder.loaded, loaded)
  chmodSync(join(folder, 'tools'), 0o777)
  const open = await gantry(['run', 'mine:greet', '{}', '--json', '--local'], options)
  assert.equal(open.code, 2)
  assert.match(open.out + open.err, /is world-writable/)
})

test('a service watches its tools folder: it serves changes, and keeps the last version of a file that became invalid', async (t) => {
  const { folder, put } = await openFolder(t)
  const serve = startServe(t, folder)
  await serve.ready
  assert.deepEqual(await call(serve, 'mine:greet'), { word: 'hello' })
  assert.deepEqual(await call(serve, 'mine:square', { n: 3 }), { square: 9 })
  assert.equal((await serve.post('/v1/calls', { tool: 'code:run', args: {} })).value.error.code, 'INPUT_INVALID')

  put('greet.ts', greet('welcome'))
  await eventually(
    async () => JSON.stringify(await call(serve, 'mine:greet')) === '{"word":"welcome"}' || undefined,
    'the new version',
  )
  put('greet.ts', 'export const = broken')
  await eventually(
    async () => /greet\.ts in the folder of tools was not loaded.*stays in use/.test(serve.printed.err) || undefined,
    'the report',
  )
  assert.deepEqual(await call(serve, 'mine:greet'), { word: 'welcome' })
  put('square.py', square.replace('n * n', 'n * n * n').replace('square', 'cube'))
  await eventually(
    async () => JSON.stringify(await call(serve, 'mine:square', { n: 2 })) === '{"cube":8}' || undefined,
    'the new program',
  )
  assert.equal(await serve.stop(), 0)
})
