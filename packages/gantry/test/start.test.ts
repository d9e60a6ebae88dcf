import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'

const repository = dirname(dirname(dirname(import.meta.dirname)))

/** A checkout in small: our own starter and bundler around a program of two modules. */
describe('the start from one bundled file', () => {
  let root = ''
  const inRoot = (...parts: readonly string[]): string => join(root, ...parts)
  const write = (path: string, text: string): void => writeFileSync(inRoot('packages/gantry/src', path), text)
  const bundle = (): string => inRoot('node_modules/.cache/gantry/gantry.cjs')
  const kept = (): string[] => (existsSync(inRoot('cache/gantry')) ? readdirSync(inRoot('cache/gantry')) : [])
  const start = (...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [inRoot('packages/gantry/bin/gantry.mjs'), ...args],
      {
        encoding: 'utf8',
        env: { PATH: process.env.PATH, XDG_CACHE_HOME: inRoot('cache') },
      },
    )
    assert.equal(status, 0, stderr)
    assert.equal(stderr, '')
    return stdout.trim()
  }

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'gantry-start-'))
    for (const folder of ['packages/gantry/src', 'scripts', 'node_modules'])
      mkdirSync(inRoot(folder), { recursive: true })
    cpSync(join(repository, 'packages/gantry/bin'), inRoot('packages/gantry/bin'), { recursive: true })
    cpSync(join(repository, 'scripts/bundle.mjs'), inRoot('scripts/bundle.mjs'))
    symlinkSync(join(repository, 'node_modules/esbuild'), inRoot('node_modules/esbuild'))
    writeFileSync(inRoot('package.json'), '{"type":"module"}')
    write('part.ts', `export const word: string = 'é’s'\n`)
    write(
      'main.ts',
      `import { word } from './part.ts'
export async function main(argv: readonly string[]) { console.log(word, argv.join(), new URL(import.meta.url).pathname.split('/').pop()) }\n`,
    )
  })
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  test('the first run writes the bundle, the second caches its compiled code, and all print the same', () => {
    assert.equal(start('run', 'x'), 'é’s run,x main.ts')
    assert.ok(existsSync(bundle()))
    assert.deepEqual(kept(), [])
    assert.equal(start('run', 'x'), 'é’s run,x main.ts')
    assert.equal(kept().length, 1)
    assert.equal(start('run', 'x'), 'é’s run,x main.ts')
    assert.equal(kept().length, 1)
    start('tools')
    assert.equal(kept().length, 2)
  })

  test('a changed source file takes effect at once, even if its length is the same', () => {
    for (const word of ['one', 'two', 'longer']) {
      write('part.ts', `export const word = '${word}'\n`)
      for (let round = 0; round < 3; round++) assert.match(start('run'), new RegExp(`^${word} `))
    }
  })

  test('a bundle truncated before the list of its inputs is not used', () => {
    start('run')
    rmSync(`${bundle()}.inputs`)
    writeFileSync(bundle(), 'nonsense(')
    assert.equal(start('run'), 'é’s run main.ts')
  })

  test('compiled code is neither written to nor read from a folder that other users can write to', () => {
    start('run')
    mkdirSync(inRoot('cache/gantry'), { recursive: true })
    chmodSync(inRoot('cache/gantry'), 0o777)
    assert.equal(start('run'), 'é’s run main.ts')
    assert.deepEqual(kept(), [])
  })

  test('the CLI runs from a read-only checkout', () => {
    rmSync(inRoot('node_modules/esbuild'))
    assert.equal(start('run'), 'é’s run main.ts')
    assert.equal(start('run'), 'é’s run main.ts')
    assert.equal(existsSync(bundle()), false)
  })
})
