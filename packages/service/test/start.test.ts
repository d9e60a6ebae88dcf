import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'

describe('starting from one linked script', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-start-'))
  const cache = join(folder, 'gantry', 'compile')
  const starter = new URL('../bin/start-fast.mjs', import.meta.url).href
  const linker = new URL('../bin/link.mjs', import.meta.url).href
  after(() => rmSync(folder, { recursive: true, force: true }))
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return pathToFileURL(join(folder, name)).href
  }
  /** Runs a module in a Node of its own, because a linked program belongs to its process. */
  const script = (text: string): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', text], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, XDG_CACHE_HOME: folder },
    })
    assert.equal(status, 0, stderr)
    assert.equal(stderr, '')
    return stdout.trim()
  }
  const start = (entry: string): string =>
    script(`import { startFast } from '${starter}'
await startFast(new URL('${entry}'), async ({ main }) => console.log(await main()))`)
  const link = (entry: string): string =>
    script(`import { link } from '${linker}'
try { console.log((0, eval)(link(new URL('${entry}')))((name) => import(name)).value) } catch (error) { console.log(error.message) }`)

  test('the first start links, the second keeps compiled code, the third uses both, and an edit is seen', () => {
    write('part.ts', `export const word: string = 'é’s'\nexport function twice(text: string) { return text + text }\n`)
    const entry = write(
      'entry.ts',
      `import { twice, type word as Word, word as said } from './part.ts'
export async function main(): Promise<typeof Word> { return twice(said) + (await import('./late.ts')).late + (await import('node:path')).sep }\n`,
    )
    write(
      'late.ts',
      `import { word } from './part.ts'\nexport class Late { size = word.length }\nexport const late = new Late().size\n`,
    )
    const linked = () => readdirSync(cache).filter((name) => name.startsWith('linked-')).length
    assert.deepEqual([start(entry), linked()], ['é’sé’s3/', 1])
    assert.deepEqual([start(entry), linked()], ['é’sé’s3/', 2])
    assert.deepEqual([start(entry), linked()], ['é’sé’s3/', 2])
    write('part.ts', `export const word = 'new'\nexport { same as twice }\nconst same = (text: string) => text\n`)
    assert.equal(start(entry), 'new3/')
    assert.equal(start(entry), 'new3/')
  })

  test('an edit that keeps the length is seen, too', () => {
    const entry = write('same.mjs', `export const main = () => 'one'\n`)
    for (let round = 0; round < 3; round++) assert.equal(start(entry), 'one')
    write('same.mjs', `export const main = () => 'two'\n`)
    for (let round = 0; round < 3; round++) assert.equal(start(entry), 'two')
  })

  test('a broken cache, or a folder that others can write to, is not used', () => {
    const entry = write('plain.mjs', `export const main = () => 'right'\n`)
    start(entry)
    for (const name of readdirSync(cache).filter((each) => each.endsWith('.cjs')))
      writeFileSync(join(cache, name), '//{"stamp":"x","files":[]}\nnonsense(')
    assert.equal(start(entry), 'right')
    for (const name of readdirSync(cache).filter((each) => each.endsWith('.cjs')))
      writeFileSync(join(cache, name), `//{"stamp":"y","files":[]}\n()=>({main:()=>'wrong'})`)
    chmodSync(cache, 0o777)
    assert.equal(start(entry), 'right')
    chmodSync(cache, 0o700)
  })

  test('what the linker does not know it refuses', () => {
    write('other.mjs', `import { value } from './loop.mjs'\nexport const other = () => value\n`)
    const refused = {
      'default.mjs': 'export default 1',
      'star.mjs': `export * from './other.mjs'`,
      'mutable.mjs': 'export let value = 1',
      'loop.mjs': `import { other } from './other.mjs'\nexport const value = other`,
      'await.mjs': 'export const value = await 1',
      'meta.mjs': 'export const value = import.meta.dirname',
      'raw.mjs': 'export const value = String.raw`é`',
    }
    for (const [name, text] of Object.entries(refused))
      assert.match(link(write(name, text)), /cannot be linked|itself|await|raw/, name)
    assert.equal(link(write('good.mjs', `export { value } from './value.mjs'\n`)).slice(0, 6), 'ENOENT')
  })
})
